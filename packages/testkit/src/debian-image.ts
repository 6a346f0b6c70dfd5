import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cachedFiles } from './cached-files.ts';
import { command } from './command.ts';
import { mirror } from './incus-tree.ts';
import { filesIn, packImage, type ImageFiles } from './tiny-image.ts';

const VERSION = '1';
const SUITE = 'bookworm';
const PACKAGES = 'systemd,systemd-sysv,dbus,iproute2,iputils-ping,netbase,udev,ifupdown,isc-dhcp-client,procps';
const INTERFACES = 'auto lo\niface lo inet loopback\nauto eth0\niface eth0 inet dhcp\n';
const METADATA = `architecture: x86_64
creation_date: 1700000000
properties:
  architecture: amd64
  description: Debian ${SUITE} minimal
  os: Debian
  release: ${SUITE}
`;

/** A real Debian with systemd, built from the machine's Debian mirror once (about half a minute). */
export async function debianImage(): Promise<ImageFiles> {
  return filesIn(await cachedFiles('debian', VERSION, buildDebian));
}

async function buildDebian(folder: string): Promise<void> {
  const work = join(folder, 'work');
  const rootfs = join(work, 'rootfs');
  mkdirSync(work);
  await command('mmdebstrap', ['--quiet', '--variant=minbase', `--include=${PACKAGES}`, SUITE, rootfs, mirror()], {
    timeoutMs: 600_000,
  });
  writeFileSync(join(rootfs, 'etc/network/interfaces'), INTERFACES);
  rmSync(join(rootfs, 'etc/hostname'), { force: true });
  writeFileSync(join(rootfs, 'etc/machine-id'), '');
  writeFileSync(join(work, 'metadata.yaml'), METADATA);
  await packImage(folder, work);
}
