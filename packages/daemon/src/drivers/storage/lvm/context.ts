import { errors, isKeelsonError, type KeelsonError } from '../../../core/errors.ts';
import type { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import { pathExists } from '../../../host/files.ts';
import { CommandError } from '../../../host/run.ts';
import { isFull, isGroupMissing, isMissing, type LvmCommand, lvm } from '../../../host/tools/lvm.ts';
import { activate, deactivate, devicePath, type Place, removeVolumes, renamePlace } from './plan.ts';
import { type LogicalVolume, parseVolumes, volumesCommand } from './report.ts';

/** The logical volumes of one pool. */
export class LogicalVolumes {
  readonly #pool: string;
  #place: Place;
  readonly #log: Log;

  constructor(pool: string, place: Place, log: Log) {
    this.#pool = pool;
    this.#place = place;
    this.#log = log;
  }

  get place(): Place {
    return this.#place;
  }

  /** Gives the thin pool or the volume group another name. */
  async moveTo(place: Place): Promise<void> {
    for (const command of renamePlace(this.#place, place)) await this.run(command);
    this.#place = place;
  }

  get thin(): boolean {
    return this.place.thinPool !== undefined;
  }

  /** @throws unavailable without the volume group, bad-request without space, CommandError with LVM's words. */
  async run(command: LvmCommand): Promise<string> {
    try {
      return await lvm(command);
    } catch (error) {
      if (isGroupMissing(error)) {
        const reason = `volume group "${this.place.group}" doesn't exist`;
        throw errors.unavailable(`Storage pool "${this.#pool}" is unavailable: ${reason}`, error);
      }
      throw isFull(error) ? this.#full(error) : error;
    }
  }

  /** Of a failed change that wrote into a volume: what a guest's or a tool's error does not tell. */
  async explained(error: unknown): Promise<unknown> {
    const { thinPool } = this.place;
    if (thinPool === undefined || isKeelsonError(error)) return error;
    const found = await this.find(thinPool).catch(() => undefined);
    return Math.max(found?.used ?? 0, found?.metadata ?? 0) >= 100 ? this.#full(error) : error;
  }

  async list(): Promise<readonly LogicalVolume[]> {
    return parseVolumes(await this.run(volumesCommand(this.place.group)));
  }

  async find(name: string): Promise<LogicalVolume | undefined> {
    try {
      return parseVolumes(await this.run(volumesCommand(`${this.place.group}/${name}`)))[0];
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  device(name: string): string {
    return devicePath(this.place, name);
  }

  /** The volume's device. Idempotent. */
  async activate(name: string): Promise<string> {
    const device = this.device(name);
    if (!(await pathExists(device))) await this.run(activate(this.place, name));
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
      await this.run(removeVolumes(this.place, names));
    } catch (error) {
      if (!isMissing(error)) throw error;
      const there = new Set((await this.list()).map(({ name }) => name));
      const rest = names.filter((name) => there.has(name));
      if (rest.length > 0) await this.run(removeVolumes(this.place, rest));
    }
  }

  #full(cause: unknown): KeelsonError {
    const { group, thinPool } = this.place;
    const where = thinPool === undefined ? `volume group "${group}"` : `thin pool "${group}/${thinPool}"`;
    return errors.badRequest(
      `No space left in the ${where} of storage pool "${this.#pool}": grow the pool, or delete what it holds`,
      cause,
    );
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
