import { scheduleParts } from '@keelson/api';
import { Cron } from 'croner';
import type { VolumeBackupService } from './volume-backup-service.ts';
import type { VolumeContext } from './volume-context.ts';
import type { VolumeSnapshotService } from './volume-snapshot-service.ts';
import { volumeId } from './volume-names.ts';

const MINUTE = 60_000;

/** Timed snapshots of custom volumes, and the end of what has expired; looks once a minute. */
export class VolumeSchedule implements AsyncDisposable {
  readonly #context: VolumeContext;
  readonly #snapshots: VolumeSnapshotService;
  readonly #backups: VolumeBackupService;
  #timer: NodeJS.Timeout | undefined;
  #work: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(context: VolumeContext, snapshots: VolumeSnapshotService, backups: VolumeBackupService) {
    this.#context = context;
    this.#snapshots = snapshots;
    this.#backups = backups;
  }

  start(): void {
    const now = this.#context.deps.clock.now();
    this.#timer = setTimeout(
      () => {
        this.#work = this.runMinute(this.#context.deps.clock.now());
        void this.#work.finally(() => !this.#stopped && this.start());
      },
      MINUTE - (now % MINUTE),
    );
    this.#timer.unref();
  }

  /** What is due in the minute of `now`. */
  async runMinute(now: number): Promise<void> {
    const { volumes, snapshots, backups } = this.#context.deps;
    for (const { value } of snapshots.list()) {
      if (value.type !== 'custom' || !isPast(value.expiresAt, now)) continue;
      const volume = volumes.get(volumeId({ ...value, name: value.volume }))?.value;
      if (volume !== undefined) await this.#try(volume, () => this.#snapshots.remove(volume, value.name));
    }
    for (const { value } of backups.list()) {
      const volume = volumes.get(volumeId({ ...value, type: 'custom', name: value.volume }))?.value;
      if (volume !== undefined && isPast(value.expiresAt, now))
        await this.#try(volume, () => this.#backups.remove(value));
    }
    for (const { value } of volumes.list()) {
      if (value.type !== 'custom') continue;
      if (scheduleParts(value.config['snapshots.schedule'] ?? '').some((part) => isDue(part, now))) {
        await this.#try(value, () => this.#snapshots.take(value, { name: '' }));
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#work;
  }

  async #try(volume: Parameters<VolumeContext['exclusive']>[0], work: () => Promise<void>): Promise<void> {
    if (this.#stopped) return;
    try {
      await this.#context.exclusive(volume, work);
    } catch (error) {
      this.#context.deps.log.warn('Timed work on a volume failed', { volume: volumeId(volume), error });
    }
  }
}

function isPast(time: string, now: number): boolean {
  const at = Date.parse(time);
  return at > 0 && at <= now;
}

function isDue(pattern: string, now: number): boolean {
  if (pattern === '@never' || pattern === '@startup') return false;
  return new Cron(pattern, { paused: true }).match(new Date(now - (now % MINUTE)));
}
