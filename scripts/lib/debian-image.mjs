import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { capture, must } from './process.mjs';

const PACKAGES = [
  'systemd',
  'systemd-sysv',
  'dbus',
  'udev',
  'iproute2',
  'iputils-ping',
  'ifupdown',
  'isc-dhcp-client',
  'netbase',
  'procps',
  'less',
  'nano-tiny',
  'ca-certificates',
];
const ARCHITECTURES = { x64: ['amd64', 'x86_64'], arm64: ['arm64', 'aarch64'] };
const INTERFACES = 'auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet dhcp\niface eth0 inet6 auto\n';

/**
 * The first package mirror that apt's sources name, in either format.
 * @param {readonly string[]} sources texts of sources.list and *.sources
 */
export function mirrorOf(sources) {
  for (const text of sources) {
    const match = /^URIs:\s*(\S+)/mu.exec(text) ?? /^deb\s+(?:\[[^\]]*\]\s+)?(\S+)/mu.exec(text);
    if (match?.[1]) return match[1];
  }
  return undefined;
}

/** The texts of apt's sources, Debian's own first. */
export function aptSources() {
  const folder = '/etc/apt/sources.list.d';
  const files = readdirSync(folder).filter((name) => /\.(?:sources|list)$/u.test(name));
  const read = (path) => {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      return '';
    }
  };
  const debianFirst = files.sort((a, b) => Number(b.startsWith('debian')) - Number(a.startsWith('debian')));
  return [read('/etc/apt/sources.list'), ...debianFirst.map((name) => read(join(folder, name)))];
}

/**
 * metadata.yaml of a Debian image.
 * @param {{suite: string, arch: string, created: number}} image
 */
export function imageMetadata({ suite, arch, created }) {
  const [debian, machine] = ARCHITECTURES[arch] ?? [arch, arch];
  return [
    `architecture: ${machine}`,
    `creation_date: ${created}`,
    'properties:',
    '  os: Debian',
    `  release: ${suite}`,
    `  architecture: ${debian}`,
    `  description: Debian ${suite} (${debian})`,
    '',
  ].join('\n');
}

/**
 * Builds a Debian system image with systemd as a split image. Needs root, mmdebstrap and squashfs-tools; about 20 s.
 * @param {{folder: string, suite: string, now: number}} options `folder` is scratch space on a real file system
 * @param {(text: string) => void} say
 * @returns {Promise<{metadata: string, rootfs: string}>} two files in `folder`
 */
export async function buildDebianImage({ folder, suite, now }, say) {
  const root = join(folder, 'rootfs');
  const mirror = mirrorOf(aptSources());
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const argv = ['mmdebstrap', '--variant=minbase', `--include=${PACKAGES.join(',')}`, suite, root];
  await must([...argv, ...(mirror ? [mirror] : [])], { onLine: (line) => say(line.replace(/^I: /u, '').slice(0, 70)) });
  finishRoot(root);
  writeFileSync(
    join(folder, 'metadata.yaml'),
    imageMetadata({ suite, arch: process.arch, created: Math.floor(now / 1000) }),
  );
  say('packing');
  const metadata = join(folder, 'metadata.tar.xz');
  const rootfs = join(folder, 'rootfs.squashfs');
  await must(['tar', '-C', folder, '-cJf', metadata, 'metadata.yaml']);
  await must(['mksquashfs', root, rootfs, '-comp', 'zstd', '-quiet', '-no-progress', '-noappend']);
  rmSync(root, { recursive: true, force: true });
  return { metadata, rootfs };
}

/** What a copy of a machine must not share, and what a container brings itself. */
function finishRoot(root) {
  for (const name of readdirSync(join(root, 'dev'))) rmSync(join(root, 'dev', name), { recursive: true, force: true });
  rmSync(join(root, 'etc/hostname'), { force: true });
  rmSync(join(root, 'var/cache/apt'), { recursive: true, force: true });
  writeFileSync(join(root, 'etc/machine-id'), '');
  writeFileSync(join(root, 'etc/network/interfaces'), INTERFACES);
}

/** The Debian release of this machine, else the current stable one. */
export async function defaultSuite() {
  const { stdout } = await capture(['sh', '-c', '. /etc/os-release && echo "$ID $VERSION_CODENAME"']);
  const [id, codename] = stdout.trim().split(' ');
  return id === 'debian' && codename ? codename : 'bookworm';
}
