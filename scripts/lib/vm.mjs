import { copyFile, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { must } from './process.mjs';

/** What the suites in the machine need of its kernel, beside what is built in. */
const MODULES = [
  'crc32c_generic',
  'xxhash_generic',
  'blake2b_generic',
  'virtio_pci',
  'virtio_blk',
  '9pnet_virtio',
  '9p',
  'overlay',
  'loop',
  'dm-mod',
  'dm-thin-pool',
  'dm-snapshot',
  'ext4',
  'xfs',
  'btrfs',
  'fuse',
  'quota_v2',
  'bridge',
  'veth',
  'nft_chain_nat',
  'nft_fib_inet',
  'nft_limit',
  'nft_masq',
  'nft_ct',
  'nft_reject_inet',
];

/** The line that tells the exit code of what ran in the machine. */
const EXIT = 'KEELSON_VM_EXIT';

/**
 * What to run: a suite, kinds of it, test files in place of the suite's own, and options of vitest from the first `-…` on.
 * @param {readonly string[]} words of the command line
 * @param {Readonly<Record<string, readonly string[]>>} suites test files by name
 * @returns undefined when no suite is named
 */
export function readArguments(words, suites) {
  const [suite = '', ...rest] = words;
  if (!Object.hasOwn(suites, suite)) return undefined;
  const end = rest.findIndex((word) => word.startsWith('-'));
  const names = end === -1 ? rest : rest.slice(0, end);
  const files = names.filter((word) => word.includes('/'));
  return {
    suite,
    kinds: names.filter((word) => !word.includes('/')),
    files: files.length === 0 ? (suites[suite] ?? []) : files,
    options: end === -1 ? [] : rest.slice(end),
  };
}

/**
 * Files of kernel modules in an order in which they can be loaded, with all they need.
 * @param {string} dependencies `modules.dep` of the kernel
 * @param {readonly string[]} wanted names; those that are not there are built in
 */
export function modulesInOrder(dependencies, wanted = MODULES) {
  const needs = new Map(
    dependencies
      .split('\n')
      .filter((line) => line.includes(':'))
      .map((line) => {
        const [file = '', rest = ''] = line.split(':');
        return [file, rest.split(' ').filter((one) => one !== '')];
      }),
  );
  const nameOf = (file) =>
    basename(file)
      .replace(/\.ko.*$/u, '')
      .replaceAll('-', '_');
  const files = new Map([...needs.keys()].map((file) => [nameOf(file), file]));
  const order = new Set();
  const add = (file) => {
    if (order.has(file)) return;
    for (const needed of needs.get(file) ?? []) add(needed);
    order.add(file);
  };
  for (const name of wanted) {
    const file = files.get(name.replaceAll('-', '_'));
    if (file !== undefined) add(file);
  }
  return [...order];
}

/**
 * First process of the machine: its root is the host's, seen through 9p; what it writes stays in memory.
 * @param {readonly string[]} modules files in `/modules`
 * @param {boolean} [layered] whether `/layer` lies over the host's root
 */
export function initScript(modules, layered = false) {
  return `#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
for m in ${modules.join(' ')}; do $B insmod /modules/$m || echo "cannot load $m"; done
RUN=$($B cat /run.sh)
$B mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576,cache=loose,ro root /host || exec $B poweroff -f
$B mount -t tmpfs -o size=70% tmpfs /write
$B mkdir /write/upper /write/work${layered ? '; $B cp -a /layer /write/layer' : ''}
$B mount -t overlay -o lowerdir=${layered ? '/write/layer:' : ''}/host,upperdir=/write/upper,workdir=/write/work overlay /new || exec $B poweroff -f
for d in proc sys dev; do $B mkdir -p /new/$d; $B mount --move /$d /new/$d; done
$B mount -t tmpfs -o mode=1777 tmpfs /new/tmp
$B mount -t tmpfs tmpfs /new/run
$B mkdir -p /new/run/lock /new/dev/pts /new/dev/shm
$B mount -t devpts devpts /new/dev/pts; $B mount -t tmpfs tmpfs /new/dev/shm
$B mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
exec $B switch_root /new /bin/bash -c "$RUN"
`;
}

/**
 * What runs in the machine, then its end. Nothing there makes device nodes but LVM itself.
 * @param {string} folder the repository
 * @param {readonly string[]} argv
 * @param {{env: Readonly<Record<string, string>>, frozen?: readonly {from: string, to: string}[]}} how
 *   `frozen`: folders that are seen in place of others
 */
export function guestScript(folder, argv, { env, frozen = [] }) {
  const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const settings = Object.entries({ HOME: '/root', NO_COLOR: '1', TERM: 'dumb', ...env });
  return [
    'echo 1 > /proc/sys/kernel/printk',
    'ip link set lo up',
    'mount -t securityfs securityfs /sys/kernel/security',
    'mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1 /dev/vda && mount /dev/vda /tmp && chmod 1777 /tmp',
    // As on a host with systemd: nothing runs in the root of the hierarchy, and the first process in a group of its own.
    'mkdir -p /sys/fs/cgroup/init.scope /sys/fs/cgroup/system.slice/tests.service',
    'echo $$ > /sys/fs/cgroup/init.scope/cgroup.procs',
    `printf 'activation {\\n udev_sync=0\\n udev_rules=0\\n monitoring=0\\n}\\n' > /etc/lvm/lvmlocal.conf`,
    ...frozen.map(({ from, to }) => `mkdir -p ${quote(to)}; mount --bind ${quote(from)} ${quote(to)}`),
    `cd ${quote(folder)}`,
    `(echo $BASHPID > /sys/fs/cgroup/system.slice/tests.service/cgroup.procs; exec env ${settings.map(([name, value]) => `${name}=${quote(value)}`).join(' ')} ${argv.map(quote).join(' ')}) < /dev/null 2>&1 | cat`,
    `echo ${EXIT} \${PIPESTATUS[0]}`,
    // A first process that ends is a panic, and one that the trigger of /proc stops may: this call does not return.
    'sync; exec busybox poweroff -f',
  ].join('\n');
}

/** Exit code among the lines the machine printed; undefined when it ended early. */
export function exitCodeIn(output) {
  const found = new RegExp(`^${EXIT} (\\d+)`, 'mu').exec(output)?.[1];
  return found === undefined ? undefined : Number(found);
}

/**
 * An initial file system with the modules of an unpacked kernel package.
 * @param {{kernel: string, version: string, folder: string, script: string, extra?: {modules: string[], tree: string} | undefined}} at
 *   `script`: what runs in the machine; `extra`: files of modules to load after the kernel's own, and a folder over the root
 * @returns {Promise<string>} its path
 */
export async function makeInitrd({ kernel, version, folder, script, extra }) {
  const modules = join(kernel, 'lib/modules', version);
  await must(['busybox', 'depmod', '-b', kernel, version]);
  const own = modulesInOrder(await readFile(join(modules, 'modules.dep'), 'utf8'));
  const files = [...own.map((file) => join(modules, file)), ...(extra?.modules ?? [])];
  const root = join(folder, 'initrd');
  await rm(root, { recursive: true, force: true });
  for (const name of ['bin', 'modules', 'proc', 'sys', 'dev', 'host', 'write', 'new'])
    await mkdir(join(root, name), { recursive: true });
  await copyFile('/bin/busybox', join(root, 'bin/busybox'));
  await symlink('busybox', join(root, 'bin/sh'));
  for (const file of files) await copyFile(file, join(root, 'modules', basename(file)));
  if (extra !== undefined) await must(['cp', '-a', extra.tree, join(root, 'layer')]);
  const init = initScript(
    files.map((file) => basename(file)),
    extra !== undefined,
  );
  await writeFile(join(root, 'init'), init, { mode: 0o755 });
  await writeFile(join(root, 'run.sh'), script);
  const image = join(folder, 'initrd.img');
  const pack = 'cd "$1" && find . | busybox cpio -o -H newc | gzip -1 > "$2"';
  await must(['sh', '-c', pack, 'sh', root, image]);
  return image;
}
