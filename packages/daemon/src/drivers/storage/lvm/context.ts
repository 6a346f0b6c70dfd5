import type { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import { pathExists } from '../../../host/files.ts';
import { CommandError } from '../../../host/run.ts';
import { type LvmCommand, isMissing, lvm, lvmIfThere } from '../../../host/tools/lvm.ts';
import { activate, deactivate, devicePath, type Place, removeVolumes, renamePlace } from './plan.ts';
import { type LogicalVolume, parseVolumes, volumesCommand } from './report.ts';

/** The logical volumes of one pool. */
export class LogicalVolumes {
  #place: Place;
  readonly #log: Log;

  constructor(place: Place, log: Log) {
    this.#place = place;
    this.#log = log;
  }

  get place(): Place {
    return this.#place;
  }

  /** Gives the thin pool or the volume group another name. */
  async moveTo(place: Place): Promise<void> {
    for (const command of renamePlace(this.#place, place)) {
      await lvm(command);
    }
    this.#place = place;
  }

  get thin(): boolean {
    return this.place.thinPool !== undefined;
  }

  run(command: LvmCommand): Promise<string> {
    return lvm(command);
  }

  async list(): Promise<readonly LogicalVolume[]> {
    const text = await lvmIfThere(volumesCommand(this.place.group));
    return text === undefined ? [] : parseVolumes(text);
  }

  async find(name: string): Promise<LogicalVolume | undefined> {
    const text = await lvmIfThere(volumesCommand(`${this.place.group}/${name}`));
    return text === undefined ? undefined : parseVolumes(text)[0];
  }

  device(name: string): string {
    return devicePath(this.place, name);
  }

  /** The volume's device. Idempotent. */
  async activate(name: string): Promise<string> {
    const device = this.device(name);
    if (!(await pathExists(device))) await lvm(activate(this.place, name));
    return device;
  }

  /** Takes the device away, unless something still uses it: a guest's own mount keeps it, and it goes at the next occasion. */
  async deactivate(name: string): Promise<void> {
    if (!(await pathExists(this.device(name)))) return;
    try {
      await lvm(deactivate(this.place, name));
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      this.#log.debug('a logical volume stays active', { name, reason: error.stderr.trim() });
    }
  }

  /** Absent ones are left out. */
  async remove(names: readonly string[]): Promise<void> {
    if (names.length === 0) return;
    try {
      await lvm(removeVolumes(this.place, names));
    } catch (error) {
      if (!isMissing(error)) throw error;
      const there = new Set((await this.list()).map(({ name }) => name));
      const rest = names.filter((name) => there.has(name));
      if (rest.length > 0) await lvm(removeVolumes(this.place, rest));
    }
  }
}

/** What the parts of one `lvm` pool share. */
export interface LvmContext {
  /** Folder of the pool's mount points. */
  readonly path: string;
  /** Mount points of what is being made. */
  readonly staging: string;
  readonly volumes: LogicalVolumes;
  /** One lane per volume. */
  readonly queue: KeyedQueue;
  readonly newId: () => string;
  readonly log: Log;
}
