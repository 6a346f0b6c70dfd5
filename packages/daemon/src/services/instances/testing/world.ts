import type { InstancesPost } from '@keelson/api';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ManualClock } from '../../../core/clock.ts';
import type { Ids } from '../../../core/ids.ts';
import { silentLog } from '../../../core/log.ts';
import { StatePaths } from '../../../core/paths.ts';
import type { Ledger } from '../../../state/collection.ts';
import { createLedger } from '../../../state/ledger.ts';
import { MemoryStore } from '../../../state/memory/memory-store.ts';
import type { Event } from '../../events/contract.ts';
import { EventService } from '../../events/event-service.ts';
import { IntentService } from '../../intents/intent-service.ts';
import type { OperationRecord, StartedOperation } from '../../operations/contract.ts';
import { Migrations } from '../../migration/migrations.ts';
import type { TransferTools } from '../../migration/tools.ts';
import { OperationService } from '../../operations/operation-service.ts';
import type { InstanceCollections } from '../deps.ts';
import { InstanceService } from '../instance-service.ts';
import { FakeInstanceDriver } from './fake-driver.ts';
import { FakeArchives, FakeFiles, FakeImages, FakeNetworks, FakeStorage, FakeVolumes } from './fake-ports.ts';

/** The instances room over fakes, with a pool `pool`, a network `net` and a default profile that uses both. */
export class World implements AsyncDisposable {
  readonly driver = new FakeInstanceDriver();
  readonly storage = new FakeStorage();
  readonly volumes = new FakeVolumes();
  readonly images = new FakeImages();
  readonly networks = new FakeNetworks();
  readonly files = new FakeFiles();
  readonly clock = new ManualClock();
  readonly events: Event[] = [];
  readonly ledger: Ledger;
  readonly collections: InstanceCollections;
  readonly operations: OperationService;
  readonly intents: IntentService;
  readonly service: InstanceService;
  readonly #folder: string;

  private constructor(ledger: Ledger, folder: string) {
    this.#folder = folder;
    this.ledger = ledger;
    const ids = countingIds();
    const { clock } = this;
    const events = new EventService({ clock });
    events.subscribe((event) => this.events.push(event), { types: ['lifecycle'] });
    this.operations = new OperationService({ events, clock, ids, log: silentLog });
    this.intents = new IntentService({ ledger, clock, ids, log: silentLog });
    this.collections = {
      instances: ledger.collection('/instances/'),
      snapshots: ledger.collection('/instance-snapshots/'),
      backups: ledger.collection('/instance-backups/'),
      metadata: ledger.collection('/instance-metadata/'),
      profiles: ledger.collection('/profiles/'),
      projects: ledger.collection('/projects/'),
      pools: ledger.collection('/storage-pools/'),
    };
    this.service = new InstanceService({
      ledger,
      collections: this.collections,
      operations: this.operations,
      events,
      intents: this.intents,
      driver: this.driver,
      storage: this.storage,
      volumes: this.volumes,
      images: this.images,
      networks: this.networks,
      guard: {
        checkInstance: () => undefined,
        checkDiskSource: () => undefined,
        checkSnapshot: () => undefined,
        checkBackup: () => undefined,
      },
      files: this.files,
      archives: new FakeArchives(),
      migrations: new Migrations({ operations: this.operations, ids, clock, tools: noTools(), scratch: folder }),
      backupCompression: () => 'gzip',
      paths: new StatePaths(folder),
      log: silentLog,
      now: () => clock.now(),
      entropy: { uuid: () => ids.uuid(), hex: (length) => ids.secret(length).slice(0, length) },
      random: () => 0,
      hostIds: { base: 100_000, size: 10_000_001 },
      capacity: { cpus: [0, 1, 2, 3], memory: 8 * 1024 ** 3 },
      architecture: 'x86_64',
    });
  }

  static async open(): Promise<World> {
    const ledger = await createLedger(new MemoryStore());
    const world = new World(ledger, await mkdtemp(join(tmpdir(), 'keelson-instances-')));
    await world.collections.profiles.create('default/default', {
      project: 'default',
      name: 'default',
      description: '',
      config: {},
      devices: { root: { type: 'disk', path: '/', pool: 'pool' }, eth0: { type: 'nic', network: 'net' } },
    });
    return world;
  }

  /** The final record of an operation that must succeed. */
  async ok(started: StartedOperation | Promise<StartedOperation>): Promise<OperationRecord> {
    const record = await (await started).done;
    if (record.status !== 'Success') throw new Error(`${record.status}: ${record.err}`);
    return record;
  }

  /** The error text of an operation that must fail. */
  async fails(started: StartedOperation | Promise<StartedOperation>): Promise<string> {
    const record = await (await started).done;
    if (record.status !== 'Failure') throw new Error(`Expected a failure: ${record.status}`);
    return record.err;
  }

  create(name: string, body: Partial<InstancesPost> = {}): Promise<OperationRecord> {
    return this.ok(this.service.creator.create('default', { name, source: { type: 'image', alias: 'tiny' }, ...body }));
  }

  start(name: string): Promise<OperationRecord> {
    return this.ok(this.service.runner.change('default', name, { action: 'start' }));
  }

  config(name: string): Readonly<Record<string, string>> {
    return this.collections.instances.get(`default/${name}`)?.value.config ?? {};
  }

  /** Actions of the lifecycle events so far. */
  actions(): string[] {
    return this.events.map(({ metadata }) => (metadata as { action: string }).action);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service[Symbol.asyncDispose]();
    await this.operations[Symbol.asyncDispose]();
    await this.ledger[Symbol.asyncDispose]();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** Nothing travels here. */
function noTools(): TransferTools {
  const no = async (): Promise<never> => {
    throw new Error('No other server');
  };
  return { sendTree: no, receiveTree: no, prepareJail: no, bind: no, unmount: no, mirror: no, readSmall: no };
}

function countingIds(): Ids {
  let next = 0;
  return {
    uuid: () => `00000000-0000-4000-8000-${String(++next).padStart(12, '0')}`,
    secret: (bytes = 32) =>
      String(++next)
        .padStart(bytes * 2, '0')
        .split('')
        .toReversed()
        .join(''),
    mac: () => '00:16:3e:00:00:00',
  };
}
