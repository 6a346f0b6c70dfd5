import { type FSWatcher, watch } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../../../core/log.ts';
import {
  childrenOf,
  identify,
  isAlive,
  namespacePids,
  type ProcessIdentity,
  runSameProgram,
  sendSignal,
  waitForEnd,
} from '../../../host/proc.ts';
import type { GuestEvent, MountSpec, NicSpec, UnixDeviceSpec } from '../contract.ts';
import type { LxcFiles } from './files.ts';

/** Devices plugged in after the start: liblxc does not know them, so a reboot would lose them. */
export interface HotPlugged {
  readonly nics: Map<string, NicSpec>;
  readonly mounts: Map<string, MountSpec>;
  readonly unixDevices: Map<string, UnixDeviceSpec>;
}

/** A running guest: liblxc's monitor process and the guest's init. */
export interface Guest {
  readonly key: string;
  readonly monitor: ProcessIdentity;
  init: ProcessIdentity;
  frozen: boolean;
  readonly hotPlugged: HotPlugged;
  /** Settles when the guest has ended and nothing of it is left. */
  readonly ended: Promise<void>;
}

const SIGKILL = 9;
const SWEEP_MS = 2_000;
/** How long the monitor may take to leave after its last hook. */
const LEAVE_MS = 10_000;
/** How long a guest may stay down while it reboots. */
const REBOOT_MS = 60_000;

const isSame = (a: ProcessIdentity, b: ProcessIdentity): boolean => a.pid === b.pid && a.startTime === b.startTime;

/** The init of a monitor: its child that is process 1 of another pid namespace. */
export function initOf(monitorPid: number): ProcessIdentity | undefined {
  for (const pid of childrenOf(monitorPid)) {
    const pids = namespacePids(pid);
    if (pids.length > 1 && pids.at(-1) === 1) return identify(pid);
  }
  return undefined;
}

export interface GuestTableOptions {
  readonly files: LxcFiles;
  readonly log: Log;
  /** Removes what liblxc did not: cgroups of a guest whose monitor was killed. */
  readonly cleanUp: (key: string) => Promise<void>;
  /** Called when a guest runs again after its own reboot, before the event goes out. */
  readonly onReboot: (guest: Guest) => Promise<void>;
}

/**
 * Running guests, kept right by liblxc's post-stop hook (a file in a watched folder) and, as a safety net for a
 * monitor that was killed, by a look at every monitor's start time each few seconds.
 */
export class GuestTable {
  readonly #options: GuestTableOptions;
  readonly #guests = new Map<string, { guest: Guest; finish: () => void; leaving: boolean; rebooting: boolean }>();
  readonly #listeners = new Set<(event: GuestEvent) => void>();
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: GuestTableOptions) {
    this.#options = options;
  }

  /** Starts watching; the folder must exist. */
  watch(): void {
    if (this.#watcher !== undefined) return;
    this.#watcher = watch(this.#options.files.events, { persistent: false }, (_type, name) => {
      if (name !== null) this.#onEvent(name);
    });
    this.#watcher.on('error', (error) => this.#options.log.warn('cannot watch guests', { error }));
    this.#timer = setInterval(() => void this.sweep(), SWEEP_MS);
    this.#timer.unref();
  }

  get(key: string): Guest | undefined {
    return this.#guests.get(key)?.guest;
  }

  all(): readonly Guest[] {
    return [...this.#guests.values()].map((entry) => entry.guest);
  }

  add(key: string, monitor: ProcessIdentity, init: ProcessIdentity): Guest {
    const { promise: ended, resolve: finish } = Promise.withResolvers<void>();
    const hotPlugged = { nics: new Map(), mounts: new Map(), unixDevices: new Map() };
    const guest: Guest = { key, monitor, init, frozen: false, hotPlugged, ended };
    this.#guests.set(key, { guest, finish, leaving: false, rebooting: false });
    return guest;
  }

  subscribe(listener: (event: GuestEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Forgets what earlier runs of this guest reported. */
  async discardEvents(key: string): Promise<void> {
    await Promise.all(['stop', 'reboot'].map((target) => rm(this.#eventFile(`${key}:${target}`), { force: true })));
  }

  /** Looks at every monitor and every report; what the watch missed is acted on now. */
  async sweep(): Promise<void> {
    for (const name of await readdir(this.#options.files.events).catch(() => [])) this.#onEvent(name);
    for (const { guest } of this.#guests.values()) {
      if (!isAlive(guest.monitor)) void this.#leave(guest);
      else if (!isAlive(guest.init)) this.#adoptInit(guest);
    }
  }

  /** The monitor is known to be gone or going: settles when the guest has left the table. */
  async leave(guest: Guest): Promise<void> {
    await this.#leave(guest);
    await guest.ended;
  }

  dispose(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    clearInterval(this.#timer);
    this.#listeners.clear();
  }

  #eventFile(name: string): string {
    return join(this.#options.files.events, name);
  }

  #onEvent(name: string): void {
    const [key = '', target = ''] = name.split(':');
    const guest = this.#guests.get(key)?.guest;
    if (guest === undefined) return;
    void rm(this.#eventFile(name), { force: true });
    if (target === 'reboot') void this.#reboot(guest);
    else void this.#leave(guest);
  }

  async #leave(guest: Guest): Promise<void> {
    const entry = this.#guests.get(guest.key);
    if (entry?.guest !== guest || entry.leaving) return;
    entry.leaving = true;
    if (!(await waitForEnd(guest.monitor, LEAVE_MS))) {
      this.#options.log.warn('monitor does not end, killing it', { instance: guest.key });
      sendSignal(guest.monitor, SIGKILL);
      await waitForEnd(guest.monitor, LEAVE_MS);
    }
    sendSignal(guest.init, SIGKILL); // outlives a killed monitor only where the kernel lost its parent-death signal
    await waitForEnd(guest.init, LEAVE_MS);
    await this.#options
      .cleanUp(guest.key)
      .catch((error: unknown) => this.#options.log.warn('cannot clean up after guest', { instance: guest.key, error }));
    this.#guests.delete(guest.key);
    entry.finish();
    this.#emit({ key: guest.key, type: 'stopped' });
  }

  /** liblxc itself starts the guest again with the same configuration. */
  async #reboot(guest: Guest): Promise<void> {
    const entry = this.#guests.get(guest.key);
    if (entry?.guest !== guest || entry.rebooting) return; // one report is seen more than once
    entry.rebooting = true;
    try {
      const init = await this.#nextInit(guest);
      if (init === undefined) await this.#leave(guest);
      else await this.#rebooted(guest, init);
    } finally {
      entry.rebooting = false;
    }
  }

  /** The init that follows the guest's current one; undefined when none comes. */
  async #nextInit(guest: Guest): Promise<ProcessIdentity | undefined> {
    const deadline = performance.now() + REBOOT_MS;
    while (isAlive(guest.monitor) && performance.now() < deadline) {
      const init = initOf(guest.monitor.pid);
      // Until it runs its own program it is still liblxc, on its way into the guest's root.
      const isNew = init !== undefined && !isSame(init, guest.init);
      if (isNew && isAlive(init) && !runSameProgram(init.pid, guest.monitor.pid)) return init;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return undefined;
  }

  async #rebooted(guest: Guest, init: ProcessIdentity): Promise<void> {
    guest.init = init;
    guest.frozen = false;
    await this.#options.onReboot(guest).catch((error: unknown) => {
      this.#options.log.warn('cannot plug devices in again after a reboot', { instance: guest.key, error });
    });
    this.#emit({ key: guest.key, type: 'rebooted' });
  }

  /** A reboot whose report was lost. */
  #adoptInit(guest: Guest): void {
    const init = initOf(guest.monitor.pid);
    if (init !== undefined) void this.#reboot(guest);
  }

  #emit(event: GuestEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (error) {
        this.#options.log.error('listener of guest events failed', { error });
      }
    }
  }
}
