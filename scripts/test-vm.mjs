// npm run test:vm -- lvm|quota|zfs|cgroup2 [kind …] [test file …] [vitest option …]: suites of drivers that this kernel lacks, in
// a machine of their own; with test files, these instead of the suite's.
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, open, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { installMissing } from './lib/packages.mjs';
import { capture, must, ROOT } from './lib/process.mjs';
import { exitCodeIn, guestScript, makeInitrd, readArguments } from './lib/vm.mjs';
import { debianZfs } from './lib/vm-zfs.mjs';

const PACKAGES = [
  'qemu-system-x86',
  'busybox-static',
  'lvm2',
  'thin-provisioning-tools',
  'xfsprogs',
  'btrfs-progs',
  'apparmor',
];
const SUITES = {
  lvm: ['conformance-lvm', 'lvm-pool', 'lvm-faults', 'lvm-kill', 'lvm-nesting'].map(
    (name) => `tests/storage/${name}.test.ts`,
  ),
  quota: ['tests/storage/dir-quota.test.ts'],
  zfs: ['conformance-zfs', 'zfs-pool', 'zfs-daemon'].map((name) => `tests/storage/${name}.test.ts`),
  // Containers where version 2 alone drives the cgroups and AppArmor is on, as on most hosts.
  cgroup2: [
    'tests/instances/instances.test.ts',
    'tests/instances/lxc-driver-life.test.ts',
    'tests/storage/limits.test.ts',
  ],
};
const DISK = 12 * 1024 ** 3;
/** The machine is emulated: what takes a second on the host takes ten there. */
const PATIENCE = '10';

const asked = readArguments(process.argv.slice(2), SUITES);
if (asked === undefined) {
  console.error(`usage: npm run test:vm -- ${Object.keys(SUITES).join('|')} [kind …] [test file …] [vitest option …]`);
  process.exit(2);
}
const { suite, kinds, files, options } = asked;
await installMissing(PACKAGES, console.log);

const folder = join(ROOT, 'node_modules/.cache/keelson-vm');
await mkdir(folder, { recursive: true });
const { kernel, version } = await debianKernel();
const zfs = suite === 'zfs' ? await withZfs() : undefined;
const env = { KEELSON_TEST_PATIENCE: PATIENCE, ...(kinds.length === 0 ? {} : { KEELSON_LVM: kinds.join(',') }) };
const scratch = await mkdtemp(join(folder, 'run-'));
const vitest = ['node_modules/.bin/vitest', 'run', '--project', 'host', '--reporter=verbose', ...files, ...options];
try {
  const frozen = await freeze(scratch);
  const script = guestScript(ROOT, vitest, { env: { ...env, PATH: guestPath() }, frozen });
  const initrd = await makeInitrd({ kernel, version, folder: scratch, script, extra: zfs });
  process.exitCode = await boot(initrd, await emptyDisk(scratch));
} finally {
  await rm(scratch, { recursive: true, force: true });
}

/** Copies of the folders that are worked on: the machine runs long, and would see every change. And of images of tests. */
async function freeze(scratch) {
  const images = join(tmpdir(), 'keelson-test-images');
  const known = await readdir(images).catch(() => []);
  const wanted = known.filter((name) => /^(?:tiny|podman)-\d+$/u.test(name)).map((name) => join(images, name));
  const folders = [join(ROOT, 'packages'), join(ROOT, 'tests'), ...wanted];
  const frozen = folders.map((to) => ({ from: join(scratch, basename(to)), to }));
  for (const { from, to } of frozen) await must(['cp', '-a', '--reflink=auto', to, from]);
  return frozen;
}

/** A disk for what the machine keeps in /tmp: with it there is a real block device, and a file system that maps ids. */
async function emptyDisk(scratch) {
  const path = join(scratch, 'disk.img');
  await using file = await open(path, 'wx');
  await file.truncate(DISK);
  return path;
}

/** Debian's own kernel, unpacked and not installed. */
async function debianKernel() {
  const unpacked = join(folder, 'kernel');
  const known = await readdir(join(unpacked, 'lib/modules')).catch(() => []);
  if (known[0] !== undefined) return { kernel: unpacked, version: known[0] };
  const { stdout } = await capture(['apt-cache', 'depends', 'linux-image-amd64']);
  const name = /Depends: (linux-image-\S+)/u.exec(stdout)?.[1];
  if (name === undefined) throw new Error('no kernel: this Debian has no linux-image-amd64');
  await must(['apt-get', '-qq', '-o', 'APT::Sandbox::User=root', 'download', name], { cwd: folder });
  const archive = (await readdir(folder)).find((file) => file.startsWith(`${name}_`));
  await must(['dpkg', '-x', join(folder, archive ?? ''), unpacked]);
  return { kernel: unpacked, version: name.replace('linux-image-', '') };
}

/** ZFS of Debian's backports; of the kind `stable`, of the release itself. */
async function withZfs() {
  await installMissing(['gcc', 'make'], console.log);
  const release = kinds.includes('stable') ? 'stable' : 'backports';
  return debianZfs({ folder, version, release }, console.log);
}

function guestPath() {
  return [
    join(ROOT, 'node_modules/.bin'),
    '/usr/local/sbin',
    '/usr/local/bin',
    '/usr/sbin',
    '/usr/bin',
    '/sbin',
    '/bin',
  ].join(':');
}

/** Runs the machine, its output passed through. */
function boot(initrd, disk) {
  const args = [
    ...['-accel', 'tcg,thread=multi,tb-size=512', '-cpu', 'max', '-smp', '2', '-m', '4096'],
    ...['-nodefaults', '-nographic', '-no-reboot', '-serial', 'stdio'],
    ...['-kernel', join(kernel, `boot/vmlinuz-${version}`), '-initrd', initrd],
    ...['-append', 'console=ttyS0 panic=-1 quiet mitigations=off'],
    ...['-virtfs', 'local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap'],
    ...['-drive', `file=${disk},if=virtio,format=raw,cache=unsafe,discard=unmap`],
  ];
  return new Promise((resolve) => {
    const machine = spawn('qemu-system-x86_64', args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    machine.stdout.setEncoding('utf8').on('data', (text) => {
      output = (output + text).slice(-65_536);
      process.stdout.write(text);
    });
    machine.once('error', (error) => {
      console.error(`cannot run qemu: ${error.message}`);
      resolve(127);
    });
    machine.once('close', () => resolve(exitCodeIn(output) ?? 1));
  });
}
