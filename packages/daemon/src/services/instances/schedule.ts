import { isTrue, scheduleParts } from '@keelson/api';
import { Cron } from 'croner';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Collection } from '../../state/collection.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import { type InstanceContext, NO_EXPIRY } from './context.ts';
import { type BootInstance, planBoot, planShutdown } from './plan/boot-order.ts';
import type { InstanceRunner } from './runner.ts';
import type { InstanceBackups } from './backups.ts';
import type { InstanceSnapshots } from './snapshots.ts';

const MINUTE = 60_000;
const BOOT = 'local';

/** Stored under `/boot/local`: the host's boot the daemon last ran in. */
interface BootRecord {
  readonly bootId: string;
}

interface Boot extends BootInstance {
  readonly record: InstanceRecord;
}

/** What happens to instances without a request: starting with the host, timed snapshots, expiry. */
export class InstanceSchedule {
  readonly #context: InstanceContext;
  readonly #runner: InstanceRunner;
  readonly #snapshots: InstanceSnapshots;
  readonly #backups: InstanceBackups;
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #minute: Promise<void> = Promise.resolve();
  #resuming: Promise<void> = Promise.resolve();

  constructor(
    context: InstanceContext,
    runner: InstanceRunner,
    snapshots: InstanceSnapshots,
    backups: InstanceBackups,
  ) {
    this.#backups = backups;
    this.#context = context;
    this.#runner = runner;
    this.#snapshots = snapshots;
  }

  /** Starts what shall run; `bootId` names the host's boot. */
  resume(bootId: string): Promise<void> {
    const resumed = this.#resume(bootId);
    this.#resuming = resumed.catch(() => undefined); // the caller's to tell
    return resumed;
  }

  async #resume(bootId: string): Promise<void> {
    const boots = this.#boots();
    const rebooted = boots.get(BOOT)?.value.bootId !== bootId;
    const steps = planBoot(this.#all(), rebooted);
    for (const { instance, delay } of steps) {
      if (this.#stop.signal.aborted) return;
      try {
        await this.#runner.run(instance.record, 'start', { signal: this.#stop.signal });
        if (delay > 0) await sleep(delay, undefined, { signal: this.#stop.signal });
      } catch (error) {
        this.#context.deps.log.warn('An instance did not start with the daemon', { instance: instance.name, error });
      }
    }
    await this.#forgetEnded();
    if (rebooted) await this.#context.deps.ledger.transact([], [boots.put(BOOT, { bootId })]);
  }

  /** Instances that ended while no daemon looked: their records say so. */
  async #forgetEnded(): Promise<void> {
    for (const { record, lastPower, running } of this.#all()) {
      if (lastPower !== 'RUNNING' || running) continue;
      await this.#runner.noticeEnd(record).catch((error: unknown) => {
        this.#context.deps.log.warn('An ended instance was not settled', { instance: record.name, error });
      });
    }
  }

  #boots(): Collection<BootRecord> {
    return this.#context.deps.ledger.collection<BootRecord>('/boot/');
  }

  #all(): Boot[] {
    return this.#context.deps.collections.instances.list().map((entry) => ({
      name: entry.value.name,
      config: this.#context.effective(entry).config,
      lastPower: entry.value.config['volatile.last_state.power'],
      running: this.#context.isRunning(entry.value),
      record: entry.value,
    }));
  }

  /** Looks at the timetable once a minute. */
  start(): void {
    if (this.#stop.signal.aborted) return;
    const now = this.#context.deps.now();
    this.#timer = setTimeout(
      () => {
        this.#minute = this.#everyMinute().catch((error: unknown) =>
          this.#context.deps.log.error('Timed work failed', { error }),
        );
        void this.#minute.finally(() => !this.#stop.signal.aborted && this.start());
      },
      MINUTE - (now % MINUTE),
    );
    this.#timer.unref();
  }

  async #everyMinute(): Promise<void> {
    await this.#expire();
    for (const { record, config, running } of this.#all()) {
      const schedule = config['snapshots.schedule'] ?? '';
      if (schedule === '' || this.#stop.signal.aborted) continue;
      if (!running && !isTrue(config['snapshots.schedule.stopped'])) continue;
      if (scheduleParts(schedule).some((part) => isDue(part, this.#context.deps.now()))) await this.#snapshot(record);
    }
  }

  async #snapshot(record: InstanceRecord): Promise<void> {
    const { operations, log } = this.#context.deps;
    await operations
      .exclusive([this.#context.lock(record)], async () => {
        const current = this.#context.find(record.project, record.name);
        if (current !== undefined) await this.#snapshots.take(current, { name: '' });
      })
      .catch((error: unknown) => log.warn('A timed snapshot failed', { instance: record.name, error }));
  }

  async #expire(): Promise<void> {
    const { collections, operations, log } = this.#context.deps;
    for (const { value } of collections.snapshots.list()) {
      if (!this.#isExpired(value.expiresAt)) continue;
      await operations
        .exclusive([this.#context.lock({ project: value.project, name: value.instance })], async () => {
          const record = this.#context.find(value.project, value.instance);
          if (record !== undefined) await this.#snapshots.remove(record, value.name);
        })
        .catch((error: unknown) =>
          log.warn('An expired snapshot was not deleted', { instance: value.instance, snapshot: value.name, error }),
        );
    }
    for (const { value } of collections.backups.list()) {
      if (!this.#isExpired(value.expiresAt)) continue;
      await operations
        .exclusive([this.#context.lock({ project: value.project, name: value.instance })], async () => {
          await this.#backups.removeExpired(value);
        })
        .catch((error: unknown) => log.warn('An expired backup was not deleted', { backup: value.name, error }));
    }
  }

  #isExpired(time: string): boolean {
    const at = time === NO_EXPIRY ? Number.NaN : Date.parse(time);
    return at > 0 && at <= this.#context.deps.now();
  }

  /** Ends every guest, those of the highest priority first. The next daemon starts them as after a boot of the host. */
  async shutdownAll(): Promise<void> {
    await this.dispose();
    await this.#resuming;
    for (const group of planShutdown(this.#all().filter(({ running }) => running)))
      await Promise.all(group.map(({ instance, timeout }) => this.#shutDown(instance.record, timeout)));
    await this.#context.deps.ledger.transact([], [this.#boots().put(BOOT, { bootId: '' })]);
  }

  /** By force when asking does not help. */
  async #shutDown(record: InstanceRecord, timeout: number): Promise<void> {
    const { log } = this.#context.deps;
    const { signal } = new AbortController();
    const stop = (patience: number) => this.#runner.run(record, 'stop', { timeout: patience, signal, keepPower: true });
    await stop(timeout)
      .catch(async (error: unknown) => {
        log.warn('An instance did not shut down in time', { instance: record.name, error });
        await stop(0);
      })
      .catch((error: unknown) => log.error('An instance did not stop', { instance: record.name, error }));
  }

  async dispose(): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#timer);
    await this.#minute;
  }
}

/** True when the cron pattern names the minute of `now`. */
function isDue(pattern: string, now: number): boolean {
  if (pattern === '@never' || pattern === '@startup') return false;
  const start = new Date(now - (now % MINUTE));
  return new Cron(pattern, { paused: true }).match(start);
}
