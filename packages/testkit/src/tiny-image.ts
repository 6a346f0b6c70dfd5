import { chmodSync, copyFileSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cachedFiles } from './cached-files.ts';
import { command } from './command.ts';

/** Files of a container image, split and unified. */
export interface ImageFiles {
  readonly metadata: string;
  readonly rootfs: string;
  /** One tarball with `metadata.yaml` and `rootfs/`. */
  readonly unified: string;
}

const VERSION = '4';

const METADATA = `architecture: x86_64
creation_date: 1700000000
properties:
  architecture: amd64
  description: Tiny test image
  os: Tiny
  release: "1"
templates:
  /etc/hostname:
    when: [create, copy]
    template: hostname.tpl
`;

// A shell is init: signals that ask for an end just end it, and with it the container.
const INIT = `#!/bin/sh
trap 'exit 0' PWR TERM USR1 USR2 37
mount -t tmpfs tmpfs /tmp 2>/dev/null
mount -t tmpfs tmpfs /run 2>/dev/null
[ -s /etc/hostname ] && hostname -F /etc/hostname
ip link set lo up
[ -x /etc/rc.local ] && /etc/rc.local
if [ -e /sys/class/net/eth0 ]; then
  ip link set eth0 up
  udhcpc -q -b -t 20 -T 1 -A 1 -i eth0 -x hostname:"$(hostname)" -s /etc/udhcpc.script >/dev/null 2>&1 &
fi
echo "tiny: ready"
while :; do
  sleep 3600 &
  wait $!
done
`;

const DHCP_SCRIPT = `#!/bin/sh
case "$1" in
deconfig) ip -4 addr flush dev "$interface"; ip link set "$interface" up ;;
bound|renew)
  ip -4 addr flush dev "$interface"
  ip addr add "$ip/\${mask:-24}" dev "$interface"
  for gateway in $router; do ip route replace default via "$gateway" dev "$interface"; done
  : >/etc/resolv.conf
  [ -n "$domain" ] && echo "search $domain" >>/etc/resolv.conf
  for server in $dns; do echo "nameserver $server" >>/etc/resolv.conf; done
  ;;
esac
exit 0
`;

/**
 * A container image that boots in well under a second: busybox, a shell as init, DHCP on eth0. It shuts down on
 * SIGPWR and on `poweroff`, and reboots on `reboot`. User `tester` has id 1000.
 */
export async function tinyImage(): Promise<ImageFiles> {
  const folder = await cachedFiles('tiny', VERSION, buildTiny);
  return filesIn(folder);
}

export function filesIn(folder: string): ImageFiles {
  return {
    metadata: join(folder, 'metadata.tar.xz'),
    rootfs: join(folder, 'rootfs.squashfs'),
    unified: join(folder, 'unified.tar.gz'),
  };
}

async function buildTiny(folder: string): Promise<void> {
  const work = join(folder, 'work');
  const rootfs = join(work, 'rootfs');
  await makeRoot(rootfs);
  mkdirSync(join(work, 'templates'));
  writeFileSync(join(work, 'metadata.yaml'), METADATA);
  writeFileSync(join(work, 'templates', 'hostname.tpl'), '{{ container.name }}\n');
  await packImage(folder, work);
}

/** Makes the three files of an image from `work` (metadata.yaml, templates/, rootfs/), then removes it. */
export async function packImage(folder: string, work: string): Promise<void> {
  const { metadata, rootfs, unified } = filesIn(folder);
  const tar = ['--numeric-owner', '--owner=0', '--group=0', '--sort=name'];
  const parts = existsSync(join(work, 'templates')) ? ['metadata.yaml', 'templates'] : ['metadata.yaml'];
  await command('tar', [...tar, '-C', work, '-cJf', metadata, ...parts]);
  await command('mksquashfs', [
    join(work, 'rootfs'),
    rootfs,
    '-comp',
    'zstd',
    '-Xcompression-level',
    '3',
    '-quiet',
    '-no-progress',
    '-noappend',
  ]);
  await command('tar', ['--numeric-owner', '--sort=name', '-C', work, '-czf', unified, ...parts, 'rootfs']);
  rmSync(work, { recursive: true });
}

/** A root file system of busybox alone, with the init above. */
export async function makeRoot(root: string): Promise<void> {
  for (const folder of [
    'bin',
    'sbin',
    'etc',
    'dev',
    'proc',
    'sys',
    'run',
    'tmp',
    'root',
    'home/tester',
    'var',
    'mnt',
    'usr/bin',
  ]) {
    mkdirSync(join(root, folder), { recursive: true });
  }
  copyFileSync(await staticBusybox(), join(root, 'bin/busybox'));
  chmodSync(join(root, 'bin/busybox'), 0o755);
  const { stdout } = await command(join(root, 'bin/busybox'), ['--list']);
  for (const applet of stdout.split('\n').filter((name) => name !== '' && name !== 'busybox')) {
    symlinkSync('busybox', join(root, 'bin', applet));
  }
  for (const name of ['poweroff', 'halt', 'reboot']) {
    script(join(root, 'sbin', name), `#!/bin/sh\nexec /bin/busybox ${name} -f\n`);
  }
  script(join(root, 'sbin/init'), INIT);
  script(join(root, 'etc/udhcpc.script'), DHCP_SCRIPT);
  chmodSync(join(root, 'root'), 0o700);
  chmodSync(join(root, 'tmp'), 0o1777);
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\ntester:x:1000:1000::/home/tester:/bin/sh\n');
  writeFileSync(join(root, 'etc/group'), 'root:x:0:\ntester:x:1000:\n');
  writeFileSync(join(root, 'etc/hosts'), '127.0.0.1 localhost\n');
  writeFileSync(join(root, 'etc/os-release'), 'ID=tiny\nNAME=Tiny\nVERSION_ID=1\n');
  await command('chown', ['-R', '0:0', root]);
  await command('chown', ['1000:1000', join(root, 'home/tester')]);
}

function script(path: string, content: string): void {
  rmSync(path, { force: true });
  writeFileSync(path, content, { mode: 0o755 });
}

async function staticBusybox(): Promise<string> {
  for (const path of ['/bin/busybox', '/usr/bin/busybox']) {
    if (!existsSync(path)) continue;
    const { stdout, stderr } = await command('ldd', [path], { anyExit: true });
    if (/not a dynamic executable|statically linked/.test(stdout + stderr)) return path;
  }
  throw new Error('The tiny image needs a static busybox: apt-get install busybox-static');
}
