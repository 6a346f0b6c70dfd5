import { capture, must } from './process.mjs';

/** Debian packages the daemon works with. */
export const RUNTIME = [
  'lxc', 'lxcfs', 'uidmap', 'btrfs-progs', 'dnsmasq-base', 'nftables', 'iproute2', 'squashfs-tools', 'xz-utils', 'zstd',
  'mmdebstrap', 'rsync', 'acl', 'attr', 'bzip2',
]; // biome-ignore format: a list

/** Debian packages only the tests need: the clients people use, and the peer the answers are compared with. */
export const TESTS = [
  'lxd',
  'lxd-client',
  'lxd-tools',
  'python3-pylxd',
  'busybox-static',
  'xfsprogs',
  'ansible',
  'curl',
  'libcap2-bin',
  'procps',
  // A Ceph of one node, and what mounts its file system and its images where the kernel cannot.
  'ceph-mon',
  'ceph-osd',
  'ceph-mgr',
  'ceph-mds',
  'ceph-common',
  'ceph-fuse',
  'qemu-system-common',
  'qemu-block-extra',
];

/**
 * The wanted packages that dpkg does not report as installed.
 * @param {readonly string[]} wanted
 * @param {string} dpkg lines of `dpkg-query -W -f='${Package} ${db:Status-Abbrev}\n'`
 */
export function missingPackages(wanted, dpkg) {
  const installed = new Set(
    dpkg
      .split('\n')
      .map((line) => line.trim().split(/\s+/u))
      .filter(([, status]) => status?.startsWith('ii') || status === 'hi')
      .map(([name]) => name),
  );
  return wanted.filter((name) => !installed.has(name));
}

/** @param {readonly string[]} wanted */
async function findMissing(wanted) {
  const query = await capture(['dpkg-query', '-W', '-f=${Package} ${db:Status-Abbrev}\\n', ...wanted]);
  if (query.code === 127) throw new Error('dpkg-query is not there: only Debian and its relatives are supported');
  return missingPackages(wanted, query.stdout);
}

const APT = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } };

/**
 * Installs what is missing; a package this Debian does not have is a failure.
 * @param {readonly string[]} wanted
 * @param {(text: string) => void} say
 * @returns {Promise<string>}
 */
export async function installMissing(wanted, say) {
  const missing = await findMissing(wanted);
  if (missing.length === 0) return 'already there';
  say('apt-get update');
  await must(['apt-get', '-qq', 'update'], APT);
  return install(missing, say);
}

/**
 * Installs what is missing and what this Debian has; the rest is named, and tests that need it are skipped.
 * @param {readonly string[]} wanted
 * @param {(text: string) => void} say
 * @returns {Promise<string>}
 */
export async function installAvailable(wanted, say) {
  const missing = await findMissing(wanted);
  if (missing.length === 0) return 'already there';
  say('apt-get update');
  await must(['apt-get', '-qq', 'update'], APT);
  const { stdout } = await capture(['apt-cache', 'madison', ...missing]);
  const available = availablePackages(missing, stdout);
  const absent = missing.filter((name) => !available.includes(name));
  const word = available.length > 0 ? await install(available, say) : 'nothing installed';
  return absent.length === 0 ? word : `${word}; this Debian has no ${absent.join(', ')}`;
}

/**
 * The packages an archive offers.
 * @param {readonly string[]} wanted
 * @param {string} madison lines of `apt-cache madison`
 */
export function availablePackages(wanted, madison) {
  const offered = new Set(madison.split('\n').map((line) => line.split('|')[0]?.trim()));
  return wanted.filter((name) => offered.has(name));
}

/** @param {readonly string[]} names @param {(text: string) => void} say */
async function install(names, say) {
  say(names.join(' '));
  await must(['apt-get', '-qq', '-y', '--no-install-recommends', 'install', ...names], APT);
  return `installed ${names.join(' ')}`;
}
