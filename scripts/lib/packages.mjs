import { capture, must } from './process.mjs';

/** Debian packages the daemon works with. */
export const RUNTIME = [
  'lxc', 'lxcfs', 'uidmap', 'btrfs-progs', 'dnsmasq-base', 'nftables', 'iproute2', 'squashfs-tools', 'xz-utils', 'zstd',
  'mmdebstrap', 'rsync', 'acl', 'attr',
]; // biome-ignore format: a list

/** Debian packages only the tests need: the clients people use, and the peer the answers are compared with. */
export const TESTS = ['lxd', 'lxd-client', 'lxd-tools', 'python3-pylxd', 'busybox-static', 'ansible'];

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

/**
 * Installs what is missing and starts no service while doing so.
 * @param {readonly string[]} wanted
 * @param {(text: string) => void} say
 * @returns {Promise<string>}
 */
export async function installMissing(wanted, say) {
  const missing = await findMissing(wanted);
  if (missing.length === 0) return 'already there';
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  say('apt-get update');
  await must(['apt-get', '-qq', 'update'], { env });
  say(missing.join(' '));
  await must(['apt-get', '-qq', '-y', '--no-install-recommends', 'install', ...missing], { env });
  return `installed ${missing.join(' ')}`;
}
