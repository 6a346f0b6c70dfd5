import { instanceKey } from '../../core/paths.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { InstanceContext } from './context.ts';
import type { Sample } from './render.ts';

/** A list shows samples at most this old without asking for new ones, in milliseconds. */
const FRESH = 1_000;
/** Older ones are taken anew before a list is answered; between the two a list is answered and they are renewed behind it. */
const STALE = 3_000;
/** Disk usage may be slow to find: it is asked for less often. */
const DISK_FRESH = 30_000;
const PARALLEL = 8;

interface Taken extends Sample {
  readonly at: number;
  readonly diskAt: number;
}

const NOTHING: Sample = { metrics: undefined, disk: undefined };

/** Counters of running guests, kept so that lists come from memory. */
export class StateSampler {
  readonly #context: InstanceContext;
  readonly #samples = new Map<string, Taken>();
  #round: Promise<void> | undefined;
  #roundAt = Number.NEGATIVE_INFINITY;
  #version = 0;

  constructor(context: InstanceContext) {
    this.#context = context;
  }

  /** Grows with every round. */
  get version(): number {
    return this.#version;
  }

  /** What is known now. */
  peek(record: InstanceRecord): Sample {
    return this.#context.isRunning(record) ? (this.#samples.get(keyOf(record)) ?? NOTHING) : NOTHING;
  }

  /** Fresh counters of one instance. */
  async take(record: InstanceRecord): Promise<Sample> {
    const taken = await this.#measure(record, 0);
    if (this.#context.isRunning(record)) this.#samples.set(keyOf(record), taken);
    return taken;
  }

  /** Resolves when `peek` tells the truth of at most a few seconds ago for every running guest. */
  async refresh(records: () => readonly InstanceRecord[]): Promise<void> {
    const age = this.#context.deps.now() - this.#roundAt;
    if (age < FRESH && !this.#misses(records())) return;
    if (age < STALE && !this.#misses(records())) {
      void this.#start(records);
      return;
    }
    await this.#start(records);
  }

  #misses(records: readonly InstanceRecord[]): boolean {
    return this.#missVersion !== this.#context.statusVersion && this.#hasMiss(records);
  }

  #missVersion = -1;

  #hasMiss(records: readonly InstanceRecord[]): boolean {
    const miss = records.some((record) => this.#context.isRunning(record) && !this.#samples.has(keyOf(record)));
    if (!miss) this.#missVersion = this.#context.statusVersion;
    return miss;
  }

  #start(records: () => readonly InstanceRecord[]): Promise<void> {
    this.#round ??= this.#sample(records()).finally(() => {
      this.#round = undefined;
    });
    return this.#round;
  }

  async #sample(records: readonly InstanceRecord[]): Promise<void> {
    const queue = records.filter((record) => this.#context.isRunning(record));
    const keep = new Set(queue.map(keyOf));
    const worker = async (): Promise<void> => {
      for (let record = queue.pop(); record !== undefined; record = queue.pop()) {
        this.#samples.set(keyOf(record), await this.#measure(record, DISK_FRESH));
      }
    };
    await Promise.all(Array.from({ length: PARALLEL }, worker));
    for (const key of this.#samples.keys()) {
      if (!keep.has(key)) this.#samples.delete(key);
    }
    this.#roundAt = this.#context.deps.now();
    this.#version++;
  }

  async #measure(record: InstanceRecord, diskAge: number): Promise<Taken> {
    const { driver, storage, now, log } = this.#context.deps;
    const key = keyOf(record);
    const at = now();
    const old = this.#samples.get(key);
    const metrics = await driver.metrics(key).catch((error: unknown) => {
      log.debug('Counters of a guest could not be read', { instance: record.name, error });
      return undefined;
    });
    if (old !== undefined && at - old.diskAt < diskAge) return { metrics, disk: old.disk, at, diskAt: old.diskAt };
    const disk = await storage.usage(this.#context.rootVolume(record)).catch(() => undefined);
    return { metrics, disk, at, diskAt: at };
  }
}

function keyOf(record: InstanceRecord): string {
  return instanceKey(record.project, record.name);
}
