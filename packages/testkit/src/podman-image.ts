import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cachedFiles } from './cached-files.ts';
import { command } from './command.ts';
import { mirror } from './incus-tree.ts';
import { filesIn, makeRoot, packImage, type ImageFiles } from './tiny-image.ts';

const VERSION = '2';
const SUITE = 'bookworm';
const PACKAGES = 'podman,crun';
/** What of those packages podman needs to run containers of one file system without a network. */
const KEPT = [
  'usr/bin/podman',
  'usr/bin/conmon',
  'usr/bin/crun',
  'usr/lib/podman',
  'usr/lib/x86_64-linux-gnu',
  'usr/share/containers',
  'lib/x86_64-linux-gnu',
  'lib64',
  'etc/containers',
];
/** What an init would mount: shared memory, and the cgroups as the host has them. */
const RC_LOCAL = `#!/bin/sh
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
cgroups=/sys/fs/cgroup
if [ "$(wc -l < /proc/self/cgroup)" = 1 ]; then
  mount -t cgroup2 cgroup2 $cgroups
  exit 0
fi
mount -t tmpfs cgroup $cgroups
IFS=:
while read -r id names path; do
  folder=\${names:-unified}
  folder=$cgroups/\${folder#name=}
  mkdir "$folder"
  case $names in
  '') mount -t cgroup2 cgroup2 "$folder" ;;
  name=*) mount -t cgroup -o "none,$names" cgroup "$folder" ;;
  *) mount -t cgroup -o "$names" cgroup "$folder" ;;
  esac
done < /proc/self/cgroup
`;
const METADATA = `architecture: x86_64
creation_date: 1700000000
properties:
  architecture: amd64
  description: Tiny image with podman
  os: Tiny
  release: podman
`;
const POLICY = '{ "default": [{ "type": "insecureAcceptAnything" }] }\n';
const STORAGE =
  '[storage]\ndriver = "overlay"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n';
const ENGINE = '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "crun"\n';

/**
 * The tiny image with Debian's podman, and in `/root/busybox.tar` the root of a container to import. Built once from
 * the machine's Debian mirror (some 15 s).
 */
export async function podmanImage(): Promise<ImageFiles> {
  return filesIn(await cachedFiles('podman', VERSION, buildPodman));
}

async function buildPodman(folder: string): Promise<void> {
  const work = join(folder, 'work');
  const [rootfs, packages] = [join(work, 'rootfs'), join(folder, 'packages')];
  mkdirSync(work);
  await makeRoot(rootfs);
  await command('mmdebstrap', ['--quiet', '--variant=extract', `--include=${PACKAGES}`, SUITE, packages, mirror()], {
    timeoutMs: 600_000,
  });
  for (const path of KEPT) {
    mkdirSync(join(rootfs, dirname(path)), { recursive: true });
    await command('cp', ['-a', '--', join(packages, path), join(rootfs, dirname(path))]);
  }
  await command('rm', ['-rf', '--', packages]);
  writeFileSync(join(rootfs, 'etc/containers/policy.json'), POLICY);
  writeFileSync(join(rootfs, 'etc/containers/storage.conf'), STORAGE);
  writeFileSync(join(rootfs, 'etc/containers/containers.conf'), ENGINE);
  mkdirSync(join(rootfs, 'var/tmp'), { mode: 0o1777 });
  writeFileSync(join(rootfs, 'etc/rc.local'), RC_LOCAL, { mode: 0o755 });
  await packInner(folder, rootfs);
  writeFileSync(join(work, 'metadata.yaml'), METADATA);
  await packImage(folder, work);
}

async function packInner(folder: string, rootfs: string): Promise<void> {
  const inner = join(folder, 'inner');
  mkdirSync(join(inner, 'bin'), { recursive: true });
  mkdirSync(join(inner, 'etc'));
  copyFileSync(join(rootfs, 'bin/busybox'), join(inner, 'bin/busybox'));
  copyFileSync(join(rootfs, 'bin/busybox'), join(inner, 'bin/sh'));
  writeFileSync(join(inner, 'etc/inner'), 'from the image\n');
  await command('tar', [
    '--numeric-owner',
    '--owner=0',
    '--group=0',
    '-C',
    inner,
    '-cf',
    join(rootfs, 'root/busybox.tar'),
    '.',
  ]);
  await command('rm', ['-rf', '--', inner]);
}
