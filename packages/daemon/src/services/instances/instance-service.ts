import type { Log } from '../../core/log.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { ProfileGuard } from '../profiles/contract.ts';
import { BackupImport } from './backup-import.ts';
import { filesBesideRoot } from './backup-content.ts';
import { InstanceBackups } from './backups.ts';
import { InstanceChanger } from './changer.ts';
import { InstanceContext } from './context.ts';
import { InstanceCreator } from './creator.ts';
import type { InstanceDeps } from './deps.ts';
import { InstanceExecutor } from './executor.ts';
import { InstanceFileService } from './file-service.ts';
import { InstanceLifecycle } from './lifecycle.ts';
import { InstanceLogService } from './log-service.ts';
import { InstanceMetadataService } from './metadata-service.ts';
import { MigrationSource } from './migration/source.ts';
import { checkRootsOfUsers } from './profile-roots.ts';
import { PublishSources } from './publish-sources.ts';
import { InstanceReader } from './reader.ts';
import { RecoveredInstances } from './recovered.ts';
import { InstanceRemover } from './remover.ts';
import { InstanceRunner } from './runner.ts';
import { InstanceSchedule } from './schedule.ts';
import { InstanceSnapshots } from './snapshots.ts';
import { InstanceStarter } from './starter.ts';

/** The instances room, built: one part per kind of request. */
export class InstanceService implements ProfileGuard, AsyncDisposable {
  readonly reader: InstanceReader;
  readonly creator: InstanceCreator;
  readonly changer: InstanceChanger;
  readonly runner: InstanceRunner;
  readonly lifecycle: InstanceLifecycle;
  /** Instances and snapshots on their way to other servers. */
  readonly departures: MigrationSource;
  readonly snapshots: InstanceSnapshots;
  readonly backups: InstanceBackups;
  readonly backupImport: BackupImport;
  readonly executor: InstanceExecutor;
  readonly files: InstanceFileService;
  readonly logs: InstanceLogService;
  readonly metadata: InstanceMetadataService;
  /** For roots whose records are lost. */
  readonly recovered: RecoveredInstances;
  /** For images that are made of instances. */
  readonly publish: PublishSources;
  readonly #context: InstanceContext;
  readonly #starter: InstanceStarter;
  readonly #schedule: InstanceSchedule;
  readonly #log: Log;

  constructor(deps: InstanceDeps) {
    const context = new InstanceContext(deps);
    const remover = new InstanceRemover(context);
    this.#context = context;
    this.#log = deps.log;
    this.#starter = new InstanceStarter(context);
    this.reader = new InstanceReader(context);
    this.creator = new InstanceCreator(context, remover, deps.migrations);
    this.changer = new InstanceChanger(context, this.#starter, remover);
    this.runner = new InstanceRunner(context, this.#starter, remover);
    this.departures = new MigrationSource(context, deps.migrations);
    this.lifecycle = new InstanceLifecycle(context, remover, this.departures);
    this.snapshots = new InstanceSnapshots(context, this.runner, this.#starter);
    this.backups = new InstanceBackups(context);
    this.backupImport = new BackupImport(context, this.creator);
    this.executor = new InstanceExecutor(context);
    this.files = new InstanceFileService(context);
    this.logs = new InstanceLogService(context);
    this.metadata = new InstanceMetadataService(context);
    this.recovered = new RecoveredInstances(context, remover);
    this.publish = new PublishSources(context);
    this.#schedule = new InstanceSchedule(context, this.runner, this.snapshots, this.backups);
  }

  /** Files that tell all about an instance, by name, for beside its root. */
  describe(record: InstanceRecord): ReadonlyMap<string, string> {
    return filesBesideRoot(this.#context, record);
  }

  /** `ProfileGuard`: what a profile may hold. */
  check(profile: ProfileRecord): void {
    this.#context.rules.checkProfile(profile);
    checkRootsOfUsers(this.#context, profile);
  }

  /** `ProfileGuard`: running instances follow a profile. */
  apply(before: ProfileRecord, after: ProfileRecord): Promise<void> {
    return this.changer.profileChanged(before, after);
  }

  /** First of all at the daemon's start: finds the guests that run. */
  async findGuests(): Promise<void> {
    const { driver, collections } = this.#context.deps;
    await driver.recover(collections.instances.list().map(({ value }) => this.#context.ref(value)));
    this.#context.statusChanged();
  }

  /** Once intents are recovered and networks are up, before the API answers: frees what ended while nobody looked. */
  async settle(): Promise<void> {
    for (const { value } of this.#context.deps.collections.instances.list()) await this.#settleOne(value);
  }

  async #settleOne(record: InstanceRecord): Promise<void> {
    if (record.config['volatile.last_state.power'] !== 'RUNNING' || this.#context.isRunning(record)) return;
    await this.#starter.cleanUp(record).catch((error: unknown) => {
      this.#log.error('What a guest left could not be cleaned up', { instance: record.name, error });
    });
  }

  /** Once the API answers: instances that shall run, and timed work. */
  async resume(bootId: string): Promise<void> {
    await this.#schedule.resume(bootId);
    this.#schedule.start();
  }

  /** Ends every guest, in the order of their priorities; for a host that goes down. */
  shutdownAll(): Promise<void> {
    return this.#schedule.shutdownAll();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#schedule.dispose();
    await this.runner.dispose();
  }
}
