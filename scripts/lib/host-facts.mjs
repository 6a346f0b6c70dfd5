import { existsSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { gunzipSync } from 'node:zlib';
import { capture } from './process.mjs';

/**
 * What was read about this machine; `undefined` where it could not be read.
 * @typedef {object} HostFacts
 * @property {string} platform
 * @property {string} arch
 * @property {number | undefined} uid
 * @property {string} kernel release, such as `6.1.0-18-amd64`
 * @property {boolean} debian apt-get and dpkg are there
 * @property {string | undefined} kernelConfig text of the kernel's configuration
 * @property {string} filesystems /proc/filesystems
 * @property {string | undefined} maxUserNamespaces
 * @property {string[]} controllers cgroup controllers in use, either layout
 */

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function kernelConfig() {
  try {
    return gunzipSync(readFileSync('/proc/config.gz')).toString('utf8');
  } catch {
    return read(`/boot/config-${release()}`);
  }
}

/**
 * Controllers of the v2 tree and of every mounted v1 hierarchy.
 * @param {string} v2 text of cgroup.controllers
 * @param {string} mounts text of /proc/self/mounts
 */
export function controllersIn(v2, mounts) {
  const found = new Set(v2.split(/\s+/u).filter(Boolean));
  for (const line of mounts.split('\n')) {
    const [, , type, options] = line.split(' ');
    if (type === 'cgroup') for (const option of (options ?? '').split(',')) found.add(option);
  }
  return [...found];
}

/** @returns {HostFacts} */
export function readHostFacts() {
  return {
    platform: process.platform,
    arch: process.arch,
    uid: process.getuid?.(),
    kernel: release(),
    debian: existsSync('/usr/bin/apt-get') && existsSync('/usr/bin/dpkg-query'),
    kernelConfig: kernelConfig(),
    filesystems: read('/proc/filesystems') ?? '',
    maxUserNamespaces: read('/proc/sys/user/max_user_namespaces')?.trim(),
    controllers: controllersIn(read('/sys/fs/cgroup/cgroup.controllers') ?? '', read('/proc/self/mounts') ?? ''),
  };
}

/**
 * Tries the kernel features for real, in namespaces of their own that vanish with the probe; nothing of the host changes.
 * Call it after the packages are installed.
 * @returns {Promise<import('./host-checks.mjs').Missing[]>}
 */
export async function probeKernel() {
  /** @type {[string, string[], string][]} */
  const probes = [
    ['user namespaces', ['unshare', '--user', 'true'], 'allow user namespaces: sysctl user.max_user_namespaces=15000'],
    ['veth network interfaces', ['unshare', '--net', 'ip', 'link', 'add', 'k0', 'type', 'veth', 'peer', 'name', 'k1'],
      'load or build the kernel module veth'],
    ['bridges', ['unshare', '--net', 'ip', 'link', 'add', 'k0', 'type', 'bridge'], 'load or build the kernel module bridge'],
    ['nftables', ['unshare', '--net', 'nft', 'add', 'table', 'inet', 'k0'], 'load or build the kernel module nf_tables'],
    ['overlayfs', ['unshare', '--mount', 'sh', '-ec',
      'mount -t tmpfs k /mnt; cd /mnt; mkdir l u w m; mount -t overlay k -o lowerdir=l,upperdir=u,workdir=w m'],
      'load or build the kernel module overlay'],
  ]; // biome-ignore format: a table
  const missing = [];
  for (const [what, argv, remedy] of probes) {
    const { code, stderr } = await capture(argv);
    if (code !== 0) missing.push({ what, why: stderr.trim().split('\n').at(-1) ?? `exit code ${code}`, remedy });
  }
  return missing;
}
