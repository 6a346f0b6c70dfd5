import { mkdir, open, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import type { Log } from '../../../core/log.ts';
import { Cgroup, type CgroupLayout, readCgroupLayout } from '../../../host/cgroup.ts';
import { NetworkNamespaces } from '../../../host/netlink.ts';
import type {
  ExecProcess,
  ExecSpec,
  GuestEvent,
  GuestMetrics,
  GuestState,
  InstanceDriver,
  InstanceRef,
  LimitsSpec,
  MountSpec,
  NicSpec,
  StartSpec,
  UnixDeviceSpec,
} from '../contract.ts';
import { consoleOfGuest, execInGuest } from './exec.ts';
import { LxcFiles } from './files.ts';
import { type Guest, GuestTable } from './guests.ts';
import { LxcfsFiles, readHostFacts } from './host-facts.ts';
import { HotPlug } from './hotplug.ts';
import { claimInterface, configuredInterfaces, removeCgroups, removeInterfaces } from './leftovers.ts';
import { withBlockDevices } from './disk-limits.ts';
import { applyLimits } from './live-limits.ts';
import { Lxcfs } from './lxcfs.ts';
import { guestMetrics } from './metrics.ts';
import { probeHost } from './probe.ts';
import { recoverGuests } from './recover.ts';
import { runStart, writeGuestFiles } from './start.ts';
import { unstageMounts } from './staged-mounts.ts';
import { killGuest, shutdownGuest } from './stop.ts';

export interface LxcDriverOptions {
  /** liblxc's folder: `StatePaths.lxc`. */
  readonly root: string;
  readonly log: Log;
  /** Default 60,000. */
  readonly startTimeoutMs?: number;
}

const CONSOLE_LIMIT = 1024 * 1024;

/** Containers, run by Debian's liblxc tools. */
export class LxcDriver implements InstanceDriver {
  readonly type = 'container';
  readonly #files: LxcFiles;
  readonly #options: LxcDriverOptions;
  readonly #layout: CgroupLayout;
  readonly #table: GuestTable;
  readonly #hotPlug: HotPlug;
  readonly #lxcfs: Lxcfs;
  readonly #lxcfsFiles = new LxcfsFiles();
  readonly #namespaces = new NetworkNamespaces();
  #prepared: Promise<void> | undefined;
  /** Starts under way: they make the cgroup around all guests. */
  #starting = 0;
  #dropping: Promise<void> | undefined;

  /** @throws when the host has no cgroups. */
  constructor(options: LxcDriverOptions) {
    this.#options = options;
    this.#files = new LxcFiles(options.root);
    this.#layout = readCgroupLayout();
    this.#lxcfs = new Lxcfs(options.log);
    this.#hotPlug = new HotPlug(this.#files, this.#layout);
    this.#table = new GuestTable({
      files: this.#files,
      log: options.log,
      cleanUp: (key) => this.#cleanUp(key),
      onReboot: (guest) => this.#hotPlug.replay(guest),
    });
  }

  probe(): ReturnType<InstanceDriver['probe']> {
    return probeHost(this.#layout);
  }

  async start(spec: StartSpec, signal?: AbortSignal): Promise<GuestState> {
    if (this.#table.get(spec.key) !== undefined) throw errors.badRequest('The instance is already running');
    await this.#prepare();
    signal?.throwIfAborted();
    const lxcfs = await this.#lxcfs.ensure();
    const shown = lxcfs === undefined ? undefined : await this.#lxcfsFiles.at(lxcfs);
    await mkdir(spec.logDir, { recursive: true, mode: 0o700 });
    await this.#table.discardEvents(spec.key);
    await removeCgroups(this.#layout, this.#files, spec.key);
    for (const nic of spec.nics) if (nic.kind === 'veth') await claimInterface(nic.hostName);
    await writeGuestFiles(this.#files, spec, readHostFacts(this.#layout, shown));
    const timeoutMs = this.#options.startTimeoutMs ?? 60_000;
    try {
      const found = await this.#run(spec, { timeoutMs, ...(signal === undefined ? {} : { signal }) });
      this.#table.add(spec.key, found.monitor, found.init);
      return { status: 'Running', pid: found.init.pid };
    } catch (error) {
      await this.#cleanUp(spec.key).catch((failure: unknown) => {
        this.#options.log.warn('cannot clean up after a failed start', { instance: spec.key, error: failure });
      });
      throw error;
    }
  }

  async shutdown(ref: InstanceRef, timeoutMs: number, signal?: AbortSignal): Promise<void> {
    const guest = this.#running(ref);
    if (guest.frozen) await this.unfreeze(ref);
    await shutdownGuest(guest, ref.name, { timeoutMs, ...(signal === undefined ? {} : { signal }) });
  }

  async kill(ref: InstanceRef): Promise<void> {
    const guest = this.#table.get(ref.key);
    if (guest === undefined) return;
    await killGuest(guest, { table: this.#table, layout: this.#layout, files: this.#files });
  }

  async freeze(ref: InstanceRef): Promise<void> {
    const guest = this.#running(ref);
    await this.#payload(ref.key).freeze();
    guest.frozen = true;
  }

  async unfreeze(ref: InstanceRef): Promise<void> {
    const guest = this.#running(ref);
    await this.#payload(ref.key).thaw();
    guest.frozen = false;
  }

  state(key: string): GuestState {
    const guest = this.#table.get(key);
    if (guest === undefined) return { status: 'Stopped', pid: 0 };
    return { status: guest.frozen ? 'Frozen' : 'Running', pid: guest.init.pid };
  }

  async metrics(key: string): Promise<GuestMetrics | undefined> {
    const guest = this.#table.get(key);
    return guest === undefined ? undefined : guestMetrics(guest, this.#payload(key), this.#namespaces);
  }

  async exec(ref: InstanceRef, spec: ExecSpec): Promise<ExecProcess> {
    const guest = this.#running(ref);
    if (guest.frozen) throw errors.badRequest('The instance is frozen');
    return execInGuest(this.#files.root, ref.key, spec);
  }

  async console(ref: InstanceRef, size: { width: number; height: number }): Promise<ExecProcess> {
    this.#running(ref);
    return consoleOfGuest(this.#files.root, ref.key, size);
  }

  async consoleLog(ref: InstanceRef): Promise<Buffer> {
    const parts = await Promise.all(['console.log.1', 'console.log'].map((name) => this.#readConsole(ref.key, name)));
    return Buffer.concat(parts);
  }

  async clearConsoleLog(ref: InstanceRef): Promise<void> {
    for (const name of ['console.log.1', 'console.log'])
      await truncate(join(this.#files.logLink(ref.key), name)).catch(ignoreAbsent);
  }

  async updateLimits(ref: InstanceRef, limits: LimitsSpec): Promise<void> {
    this.#running(ref);
    await applyLimits(this.#layout, this.#payload(ref.key), await withBlockDevices(limits));
  }

  attachNic(ref: InstanceRef, nic: NicSpec): Promise<void> {
    return this.#hotPlug.attachNic(this.#running(ref), nic);
  }
  detachNic(ref: InstanceRef, nic: NicSpec): Promise<void> {
    return this.#hotPlug.detachNic(this.#running(ref), nic);
  }
  attachMount(ref: InstanceRef, mount: MountSpec): Promise<void> {
    return this.#hotPlug.attachMount(this.#running(ref), mount);
  }
  detachMount(ref: InstanceRef, mount: MountSpec): Promise<void> {
    return this.#hotPlug.detachMount(this.#running(ref), mount);
  }
  attachUnixDevice(ref: InstanceRef, device: UnixDeviceSpec): Promise<void> {
    return this.#hotPlug.attachUnixDevice(this.#running(ref), device);
  }
  detachUnixDevice(ref: InstanceRef, device: UnixDeviceSpec): Promise<void> {
    return this.#hotPlug.detachUnixDevice(this.#running(ref), device);
  }

  async recover(known: readonly InstanceRef[]): Promise<void> {
    await this.#prepare();
    const context = { files: this.#files, layout: this.#layout, table: this.#table, log: this.#options.log };
    await recoverGuests(context, new Set(known.map((ref) => ref.key)));
    for (const guest of this.#table.all()) guest.frozen = await this.#payload(guest.key).isFrozen();
    await this.#table.sweep();
  }

  async forget(ref: InstanceRef): Promise<void> {
    if (this.#table.get(ref.key) !== undefined) throw errors.badRequest('The instance is running');
    await this.#table.discardEvents(ref.key);
    await unstageMounts(this.#files, ref.key);
    await this.#files.remove(ref.key);
  }

  subscribe(listener: (event: GuestEvent) => void): () => void {
    return this.#table.subscribe(listener);
  }

  async dispose(): Promise<void> {
    this.#table.dispose();
    this.#namespaces[Symbol.dispose]();
  }

  #prepare(): Promise<void> {
    this.#prepared ??= this.#files.prepare().then(() => this.#table.watch());
    return this.#prepared;
  }

  #payload(key: string): Cgroup {
    return new Cgroup(this.#layout, this.#files.payload(key));
  }

  #running(ref: InstanceRef): Guest {
    const guest = this.#table.get(ref.key);
    if (guest === undefined) throw errors.badRequest('The instance is not running');
    return guest;
  }

  async #run(spec: StartSpec, options: Parameters<typeof runStart>[2]): ReturnType<typeof runStart> {
    this.#starting++;
    try {
      await this.#dropping;
      return await runStart(this.#files, spec, options);
    } finally {
      this.#starting--;
    }
  }

  async #cleanUp(key: string): Promise<void> {
    await removeCgroups(this.#layout, this.#files, key);
    if (this.#starting === 0 && this.#table.all().every((guest) => guest.key === key)) {
      this.#dropping = new Cgroup(this.#layout, this.#files.guests).removeIfEmpty();
      await this.#dropping;
    }
    await unstageMounts(this.#files, key);
    await removeInterfaces(await configuredInterfaces(this.#files, key));
  }

  async #readConsole(key: string, name: string): Promise<Buffer> {
    const file = await open(join(this.#files.logLink(key), name), 'r').catch(ignoreAbsent);
    if (file === undefined) return Buffer.alloc(0);
    try {
      const { size } = await file.stat();
      const buffer = Buffer.alloc(Math.min(size, CONSOLE_LIMIT));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, Math.max(0, size - buffer.length));
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  }
}

function ignoreAbsent(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ELOOP'))
    return undefined;
  throw error;
}
