import { isTrue } from '@keelson/api';
import { errors, type KeelsonError } from '../../core/errors.ts';
import type { CountedInstance } from './project-limits.ts';

type Config = Readonly<Record<string, string>>;

/** Config keys of an instance that reach below its isolation. */
const lowLevel = new Set([
  'boot.host_shutdown_timeout',
  'linux.kernel_modules',
  'raw.apparmor',
  'raw.lxc',
  'raw.seccomp',
  'security.devlxd.images',
  'security.idmap.base',
  'security.idmap.size',
]);
const lowLevelVirtual = new Set(['boot.host_shutdown_timeout', 'raw.qemu', 'raw.qemu.conf', 'limits.memory.hugepages']);

/** Interceptions that stay harmless; `restricted.containers.interception=allow` lets these through, `full` all. */
const safeInterceptions = new Set([
  'security.syscalls.intercept.mknod',
  'security.syscalls.intercept.setxattr',
  'security.syscalls.intercept.sysinfo',
]);

/** Device types that are all or nothing: restriction key and LXD's words. */
const deviceRules: Readonly<Record<string, readonly [key: string, noun: string]>> = {
  gpu: ['restricted.devices.gpu', 'GPU devices'],
  infiniband: ['restricted.devices.infiniband', 'InfiniBand devices'],
  pci: ['restricted.devices.pci', 'PCI devices'],
  proxy: ['restricted.devices.proxy', 'Proxy devices'],
  'unix-block': ['restricted.devices.unix-block', 'Unix block devices'],
  'unix-char': ['restricted.devices.unix-char', 'Unix character devices'],
  'unix-hotplug': ['restricted.devices.unix-hotplug', 'Unix hotplug devices'],
  usb: ['restricted.devices.usb', 'USB devices'],
  // No rule of its own: a TPM of the host's making is nothing of the host's.
  tpm: ['', ''],
};

export function isRestricted(project: Config): boolean {
  return isTrue(project['restricted']);
}

/** True when a restricted project blocks `restricted.<what>`. */
export function isBlocked(project: Config, what: 'snapshots' | 'backups'): boolean {
  return isRestricted(project) && (project[`restricted.${what}`] || 'block') !== 'allow';
}

/** Whether a disk may show this folder of the host: what a link led to counts, not where the link lies. */
export function isDiskSourceAllowed(project: Config, path: string): boolean {
  const paths = listOf(project['restricted.devices.disk.paths']);
  return !isRestricted(project) || paths.length === 0 || paths.some((folder) => liesIn(path, folder));
}

/**
 * Holds an instance (profiles applied) against a restricted project; keys `volatile.*` and `image.*` are not looked at.
 * @throws unauthorized with LXD's text for the first thing that is forbidden.
 */
export function checkRestrictions(project: { name: string; config: Config }, instance: CountedInstance): void {
  if (!isRestricted(project.config)) return;
  const check = new Restrictions(project, instance);
  for (const [key, value] of Object.entries(instance.config)) {
    if (value !== '') check.config(key, value);
  }
  check.isolation();
  for (const [name, device] of Object.entries(instance.devices)) check.device(name, device);
}

class Restrictions {
  readonly #project: Config;
  readonly #instance: CountedInstance;
  readonly #object: string;

  constructor(project: { name: string; config: Config }, instance: CountedInstance) {
    this.#project = project.config;
    this.#instance = instance;
    this.#object = `${instance.type} "${instance.name}" of project "${project.name}"`;
  }

  config(key: string, value: string): void {
    const virtual = this.#instance.type === 'virtual-machine';
    const rule = virtual ? 'restricted.virtual-machines.lowlevel' : 'restricted.containers.lowlevel';
    if ((virtual ? lowLevelVirtual : lowLevel).has(key) && !this.#allows(rule)) {
      throw errors.unauthorized(`Use of low-level config "${key}" on ${this.#object} is forbidden`);
    }
    if (virtual) return;
    if (key === 'security.nesting' && isTrue(value) && !this.#allows('restricted.containers.nesting')) {
      throw this.#badValue(key, value, 'Container nesting is forbidden');
    }
    if (key.startsWith('security.syscalls.intercept.') && isTrue(value) && !this.#mayIntercept(key)) {
      throw this.#badValue(key, value, 'Container syscall interception is forbidden');
    }
    if (key === 'raw.idmap') this.#idmap(value);
  }

  /** What `security.privileged` and `security.idmap.isolated` come to. */
  isolation(): void {
    const { type, config } = this.#instance;
    if (type !== 'container') return;
    const level = this.#value('restricted.containers.privilege', 'unprivileged');
    const privileged = config['security.privileged'] ?? '';
    if (level !== 'allow' && isTrue(privileged)) {
      throw this.#badValue('security.privileged', privileged, 'Privileged containers are forbidden');
    }
    const isolated = config['security.idmap.isolated'] ?? '';
    if (level === 'isolated' && !isTrue(isolated)) {
      throw this.#badValue('security.idmap.isolated', isolated, 'Non-isolated containers are forbidden');
    }
  }

  device(name: string, device: Config): void {
    const type = device['type'] ?? '';
    if (type === 'none') return;
    if (type === 'disk') return this.#disk(name, device);
    if (type === 'nic') return this.#nic(name, device);
    const rule = deviceRules[type];
    if (rule === undefined) throw this.#badDevice(name, `Devices of type "${type}" are forbidden`);
    const [key, noun] = rule;
    if (key !== '' && !this.#allows(key)) throw this.#badDevice(name, `${noun} are forbidden`);
  }

  #disk(name: string, device: Config): void {
    if (device['path'] === '/' && (device['source'] ?? '') === '') return;
    const mode = this.#value('restricted.devices.disk', 'managed');
    if (mode === 'block') throw this.#badDevice(name, 'Disk devices are forbidden');
    if ((device['pool'] ?? '') !== '') return;
    if (mode === 'managed') throw this.#badDevice(name, 'Attaching disks not backed by a pool is forbidden');
    const paths = listOf(this.#project['restricted.devices.disk.paths']);
    const source = device['source'] ?? '';
    if (paths.length > 0 && !paths.some((path) => liesIn(source, path))) {
      throw this.#badDevice(name, `Disk source path "${source}" not allowed`);
    }
  }

  #nic(name: string, device: Config): void {
    const mode = this.#value('restricted.devices.nic', 'managed');
    if (mode === 'block') throw this.#badDevice(name, 'Network devices are forbidden');
    const network = device['network'] ?? '';
    if (mode === 'managed' && network === '') throw this.#badDevice(name, 'Only managed network devices are allowed');
    const wanted = network || (device['parent'] ?? '');
    const access = listOf(this.#project['restricted.networks.access']);
    if (access.length > 0 && wanted !== '' && !access.includes(wanted)) {
      throw this.#badDevice(name, 'Network not allowed in project');
    }
  }

  #mayIntercept(key: string): boolean {
    const mode = this.#value('restricted.containers.interception', 'block');
    return mode === 'full' || (mode === 'allow' && safeInterceptions.has(key));
  }

  /** Each line maps host ids; all of them must be among those the project may use. */
  #idmap(value: string): void {
    const lines = value.split('\n').filter((line) => line.trim() !== '');
    for (const [index, line] of lines.entries()) {
      const [kind = '', host = ''] = line.trim().split(/\s+/);
      const rules = { uid: ['uid'], gid: ['gid'], both: ['uid', 'gid'] }[kind] ?? ['uid', 'gid'];
      if (!rules.every((rule) => rangeIn(host, listOf(this.#project[`restricted.idmap.${rule}`])))) {
        throw errors.unauthorized(`Use of low-level "raw.idmap" element ${index} on ${this.#object} is forbidden`);
      }
    }
  }

  #allows(key: string): boolean {
    return this.#value(key, 'block') === 'allow';
  }

  #value(key: string, fallback: string): string {
    return this.#project[key] || fallback;
  }

  #badValue(key: string, value: string, why: string): KeelsonError {
    return errors.unauthorized(`Invalid value "${value}" for config "${key}" on ${this.#object}: ${why}`);
  }

  #badDevice(name: string, why: string): KeelsonError {
    return errors.unauthorized(`Invalid device "${name}" on ${this.#object}: ${why}`);
  }
}

function listOf(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

/** Only a plain absolute path can lie in a folder: one with `..` is refused, not interpreted. */
function liesIn(path: string, folder: string): boolean {
  if (!path.startsWith('/') || path.split('/').some((part) => part === '..' || part === '.')) return false;
  const base = folder.endsWith('/') ? folder : `${folder}/`;
  return path === folder || `${path}/`.startsWith(base);
}

function rangeIn(host: string, allowed: readonly string[]): boolean {
  const wanted = parseRange(host);
  if (wanted === undefined) return false;
  return allowed.some((text) => {
    const range = parseRange(text);
    return range !== undefined && range[0] <= wanted[0] && wanted[1] <= range[1];
  });
}

function parseRange(text: string): [number, number] | undefined {
  const match = /^(\d{1,10})(?:-(\d{1,10}))?$/.exec(text);
  if (match === null) return undefined;
  const [first, last] = [Number(match[1]), Number(match[2] ?? match[1])];
  return first <= last ? [first, last] : undefined;
}
