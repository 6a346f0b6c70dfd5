import { readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { Cgroup, type CgroupLayout } from '../../../host/cgroup.ts';
import { changeGuestMount } from '../../../host/guest-mount.ts';
import { ipBatch, type IpCommand } from '../../../host/tools/ip.ts';
import { ipInNamespace } from '../../../host/tools/ip-namespace.ts';
import { lxcDeviceRule } from '../../../host/tools/lxc.ts';
import type { MountSpec, NicSpec, UnixDeviceSpec } from '../contract.ts';
import { checkNic, deviceRule } from './config.ts';
import type { LxcFiles } from './files.ts';
import type { Guest } from './guests.ts';
import { claimInterface, removeInterfaces } from './leftovers.ts';
import { makeDeviceFile } from './start.ts';

/** Devices into and out of running guests. */
export class HotPlug {
  readonly #files: LxcFiles;
  readonly #layout: CgroupLayout;

  constructor(files: LxcFiles, layout: CgroupLayout) {
    this.#files = files;
    this.#layout = layout;
  }

  async attachNic(guest: Guest, nic: NicSpec): Promise<void> {
    checkNic(nic);
    if (nic.kind === 'veth') await claimInterface(nic.hostName);
    await ipBatch(attachCommands(nic, guest.init.pid)).catch(async (error: unknown) => {
      if (nic.kind === 'veth') await removeInterfaces([nic.hostName]);
      throw errors.badRequest(`Cannot plug nic "${nic.device}" into the running instance`, error);
    });
    guest.hotPlugged.nics.set(nic.device, nic);
  }

  async detachNic(guest: Guest, nic: NicSpec): Promise<void> {
    guest.hotPlugged.nics.delete(nic.device);
    checkNic(nic);
    if (nic.kind === 'veth') {
      await removeInterfaces([nic.hostName]);
    } else if (nic.kind === 'phys') {
      await ipInNamespace(guest.init.pid, [
        'link',
        'set',
        'dev',
        nic.name,
        'name',
        nic.link,
        'netns',
        `${process.pid}`,
      ]);
    } else {
      await ipInNamespace(guest.init.pid, ['link', 'del', 'dev', nic.name]);
    }
  }

  async attachMount(guest: Guest, mount: MountSpec): Promise<void> {
    const source = await stat(mount.source).catch(() => undefined);
    if (source === undefined && mount.optional) return;
    if (source === undefined)
      throw errors.badRequest(`Missing source path "${mount.source}" for disk "${mount.device}"`);
    await this.#mount(guest, { ...mount, kind: mount.kind ?? (source.isDirectory() ? 'folder' : 'file') });
    guest.hotPlugged.mounts.set(mount.device, mount);
  }

  async detachMount(guest: Guest, mount: MountSpec): Promise<void> {
    guest.hotPlugged.mounts.delete(mount.device);
    await this.#unmount(guest, mount.target, false);
  }

  async attachUnixDevice(guest: Guest, device: UnixDeviceSpec): Promise<void> {
    const owner = await rootOf(guest);
    if (owner === 0) await this.#allow(guest, device, true);
    const source = await makeDeviceFile(this.#files, { key: guest.key, idBase: owner }, device);
    await this.#mount(guest, {
      ...{ device: device.device, source, target: device.target, kind: 'file' },
      ...{ readOnly: false, recursive: false, shift: false },
    });
    guest.hotPlugged.unixDevices.set(device.device, device);
  }

  async detachUnixDevice(guest: Guest, device: UnixDeviceSpec): Promise<void> {
    guest.hotPlugged.unixDevices.delete(device.device);
    if ((await rootOf(guest)) === 0) await this.#allow(guest, device, false);
    await this.#unmount(guest, device.target, true);
    await rm(join(this.#files.deviceFolder(guest.key), `unix.${encodeURIComponent(device.device)}`), { force: true });
  }

  /** Plugs everything in again after the guest rebooted. */
  async replay(guest: Guest): Promise<void> {
    const { nics, mounts, unixDevices } = guest.hotPlugged;
    for (const nic of nics.values()) await this.attachNic(guest, nic);
    for (const mount of mounts.values()) await this.attachMount(guest, mount);
    for (const device of unixDevices.values()) await this.attachUnixDevice(guest, device);
  }

  async #mount(
    guest: Guest,
    mount: Pick<MountSpec, 'device' | 'source' | 'target' | 'readOnly' | 'recursive' | 'shift'> & {
      readonly kind: 'folder' | 'file';
    },
  ): Promise<void> {
    const { device, source, target, kind, readOnly, recursive, shift } = mount;
    const owner = await rootOf(guest);
    const request = { source, target, kind, readOnly, recursive, shift, owner };
    await changeGuestMount({ act: 'attach', pid: guest.init.pid, ...request }).catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error);
      throw errors.badRequest(`Cannot mount device "${device}" in the running instance: ${reason}`, error);
    });
  }

  async #unmount(guest: Guest, target: string, removeFile: boolean): Promise<void> {
    const owner = await rootOf(guest);
    await changeGuestMount({ act: 'detach', pid: guest.init.pid, target, removeFile, owner }).catch(
      (error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        if (reason.endsWith('EINVAL') || reason.endsWith('ENOENT')) return; // the guest unmounted it itself
        throw errors.badRequest(`Cannot unmount ${target} from the running instance: ${reason}`, error);
      },
    );
  }

  async #allow(guest: Guest, device: UnixDeviceSpec, allowed: boolean): Promise<void> {
    const rule = deviceRule(device);
    if (!this.#layout.v1.has('devices')) {
      await lxcDeviceRule({ lxcPath: this.#files.root, name: guest.key, rule, allowed });
      return;
    }
    const payload = new Cgroup(this.#layout, this.#files.payload(guest.key));
    await payload.write('devices', allowed ? 'devices.allow' : 'devices.deny', rule);
  }
}

/** Host id of the guest's root. */
async function rootOf(guest: Guest): Promise<number> {
  const map = await readFile(`/proc/${guest.init.pid}/uid_map`, 'utf8');
  return Number(map.trim().split(/\s+/)[1]);
}

function attachCommands(nic: NicSpec, pid: number): IpCommand[] {
  const mtu = nic.mtu === undefined ? [] : ['mtu', String(nic.mtu)];
  const address = nic.hwaddr === '' ? [] : ['address', nic.hwaddr];
  const netns = ['netns', String(pid)];
  if (nic.kind === 'veth') {
    const peer = ['peer', 'name', nic.name, ...address, ...mtu, ...netns];
    return [
      ['link', 'add', 'dev', nic.hostName, ...mtu, 'type', 'veth', ...peer],
      ['link', 'set', 'dev', nic.hostName, 'master', nic.link, 'up'],
    ];
  }
  if (nic.kind === 'phys') return [['link', 'set', 'dev', nic.link, 'name', nic.name, ...netns]];
  const mode = nic.kind === 'macvlan' ? ['macvlan', 'mode', 'bridge'] : ['ipvlan', 'mode', 'l3s'];
  const own = nic.kind === 'macvlan' ? address : [];
  return [['link', 'add', 'link', nic.link, 'name', nic.name, ...own, ...mtu, ...netns, 'type', ...mode]];
}
