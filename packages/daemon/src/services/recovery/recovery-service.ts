import { names, storagePoolConfig, storageDrivers, storageVolumeConfig, validateConfig } from '@keelson/api';
import { zeroTime } from '../../core/clock.ts';
import { errors, isKeelsonError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { FoundVolume, PoolRecovery, StoragePool, VolumeRef } from '../../drivers/storage/contract.ts';
import type { Collection, Ledger } from '../../state/collection.ts';
import type { NetworkRecord } from '../../state/records/network.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import type {
  StoragePoolRecord,
  StorageVolumeRecord,
  StorageVolumeSnapshotRecord,
} from '../../state/records/storage.ts';
import type { Write } from '../../state/store.ts';
import type { RecoveredInstances } from '../instances/recovered.ts';
import type { Operations } from '../operations/contract.ts';
import { DEFAULT_PROJECT, effectiveProject } from '../projects/scope.ts';
import type { LivePools } from '../storage/live-pools.ts';
import { refOf, snapshotId, volumeId } from '../storage/volume-names.ts';
import type { Recovery, RecoverPool, RecoveryReport, UnknownVolume } from './contract.ts';
import { type FoundCustom, type FoundInstance, type PoolContent, scanPool } from './pool-scan.ts';

export interface RecoveryServiceOptions {
  readonly ledger: Ledger;
  readonly pools: Collection<StoragePoolRecord>;
  readonly volumes: Collection<StorageVolumeRecord>;
  readonly snapshots: Collection<StorageVolumeSnapshotRecord>;
  readonly projects: Collection<ProjectRecord>;
  readonly profiles: Collection<ProfileRecord>;
  readonly networks: Collection<NetworkRecord>;
  readonly live: LivePools;
  readonly operations: Operations;
  readonly instances: RecoveredInstances;
  readonly log: Log;
  /** ISO 8601 UTC. */
  readonly now: () => string;
}

/** A pool that is open for recovery. */
interface OpenPool {
  readonly wanted: RecoverPool;
  readonly driver: string;
  readonly pool: StoragePool;
  /** False for one the records do not know yet. */
  readonly known: boolean;
  readonly content: PoolContent;
}

/** Brings back what is on pools and not in the records; every single thing is brought back whole or not at all. */
export class RecoveryService implements Recovery {
  readonly #options: RecoveryServiceOptions;

  constructor(options: RecoveryServiceOptions) {
    this.#options = options;
  }

  async validate(pools: readonly RecoverPool[]): Promise<RecoveryReport> {
    return this.#with(pools, async (open) => this.#report(open));
  }

  async import(pools: readonly RecoverPool[]): Promise<RecoveryReport> {
    return this.#with(pools, async (open) => {
      const report = this.#report(open);
      if (report.missing.length > 0) return report;
      const volumes: UnknownVolume[] = [];
      const problems: string[] = [];
      for (const one of open) {
        await this.#adoptPool(one);
        problems.push(...one.content.problems);
      }
      for (const one of open) await this.#importPool(one, volumes, problems);
      return { volumes, missing: [], problems };
    });
  }

  /** Opens the pools, alone on them; those that stay unknown are closed again. */
  async #with<T>(wanted: readonly RecoverPool[], use: (open: readonly OpenPool[]) => Promise<T>): Promise<T> {
    const { operations, live } = this.#options;
    const distinct = [...new Map(wanted.map((one) => [one.name, one])).values()];
    const keys = distinct.map(({ name }) => `storage-pool/${name}`).sort();
    return operations.exclusive(keys, async () => {
      const open: OpenPool[] = [];
      try {
        for (const one of distinct) open.push(await this.#open(one));
        return await use(open);
      } finally {
        for (const { pool, known, wanted: one } of open) if (!known && !live.has(one.name)) await this.#close(pool);
      }
    });
  }

  async #open(wanted: RecoverPool): Promise<OpenPool> {
    const { live } = this.#options;
    const { name } = wanted;
    if (live.has(name)) {
      const pool = await live.use(name);
      const { driver } = live.record(name);
      return { wanted, driver, pool, known: true, content: await this.#scan(name, recoveryOf(pool, driver)) };
    }
    const problem = names.poolName.check(name);
    if (problem !== undefined) throw errors.badRequest(problem);
    if (wanted.driver === '') throw errors.badRequest(`Storage pool "${name}" is unknown: tell its driver and source`);
    const driver = await live.driver(wanted.driver);
    if (driver.reopen === undefined)
      throw errors.badRequest(`Storage pools of driver "${wanted.driver}" cannot be recovered by this server`);
    const config = await driver.reopen(live.spec(name, wanted.config));
    checkPoolConfig(wanted.driver, config);
    const pool = driver.open(live.spec(name, config));
    try {
      await pool.mount();
      return {
        wanted: { ...wanted, config },
        driver: wanted.driver,
        pool,
        known: false,
        content: await this.#scan(name, recoveryOf(pool, wanted.driver)),
      };
    } catch (error) {
      await this.#close(pool);
      throw error;
    }
  }

  #scan(pool: string, recovery: PoolRecovery): Promise<PoolContent> {
    const nameOf = ({ type, name }: VolumeRef) => `${type}/${name}`;
    const recorded = new Set(this.#options.volumes.list(`${pool}/`).map(({ value }) => nameOf(refOf(value))));
    return scanPool(pool, recovery, (volume) => recorded.has(nameOf(volume)));
  }

  async #close(pool: StoragePool): Promise<void> {
    await pool
      .unmount()
      .catch((error: unknown) => this.#options.log.warn('A pool that was looked at stays mounted', { error }));
  }

  #report(open: readonly OpenPool[]): RecoveryReport {
    const missing = new Set<string>();
    const volumes: UnknownVolume[] = [];
    const wanted = new Set(open.map(({ wanted: { name } }) => name));
    for (const one of open) {
      for (const found of this.#unknownOf(one)) {
        volumes.push(shown(one, found));
        for (const what of this.#missingFor(found, wanted)) missing.add(what);
      }
    }
    return { volumes, missing: [...missing], problems: open.flatMap(({ content }) => content.problems) };
  }

  /** Custom volumes first: instances may have them attached. */
  #unknownOf({ wanted: { name: pool }, content }: OpenPool): (FoundInstance | FoundCustom)[] {
    const { volumes } = this.#options;
    return [...content.customs, ...content.instances].filter(
      ({ found, project, name }) =>
        volumes.get(volumeId({ pool, project, type: found.volume.type, name })) === undefined,
    );
  }

  #missingFor(found: FoundInstance | FoundCustom, poolsAtHand: ReadonlySet<string>): string[] {
    const { projects, profiles, networks, live } = this.#options;
    const { project } = found;
    if (project !== DEFAULT_PROJECT && projects.get(project) === undefined) return [`Project "${project}"`];
    if (!('described' in found)) return [];
    const { instance, snapshots } = found.described;
    const missing: string[] = [];
    const home = effectiveProject(projects, project, 'profiles');
    for (const name of new Set([instance, ...snapshots].flatMap((state) => state.profiles))) {
      if (profiles.get(`${home}/${name}`) === undefined) missing.push(`Profile "${name}" in project "${project}"`);
    }
    const networkHome = effectiveProject(projects, project, 'networks');
    for (const device of Object.values({ ...instance.expandedDevices, ...instance.devices })) {
      const { type, network = '', pool = '', path } = device;
      if (type === 'nic' && network !== '' && networks.get(`${networkHome}/${network}`) === undefined)
        missing.push(`Network "${network}" in project "${project}"`);
      if (type === 'disk' && path !== '/' && pool !== '' && !live.has(pool) && !poolsAtHand.has(pool))
        missing.push(`Storage pool "${pool}"`);
    }
    return missing;
  }

  /** Records a pool that is new to this server, with what it tells about itself where the user said nothing. */
  async #adoptPool({ wanted, driver, pool, known, content }: OpenPool): Promise<void> {
    if (known) return;
    const { pools, live } = this.#options;
    const told =
      content.note ?? content.instances.find(({ described }) => described.pool !== undefined)?.described.pool;
    const trusted = told?.driver === driver ? told : undefined;
    const config = { ...usablePoolConfig(driver, trusted?.config ?? {}), ...wanted.config };
    const description = wanted.description === '' ? (trusted?.description ?? '') : wanted.description;
    await pools.create(wanted.name, { name: wanted.name, driver, description, config, status: 'Created' });
    live.adopt(pool);
  }

  async #importPool(open: OpenPool, volumes: UnknownVolume[], problems: string[]): Promise<void> {
    for (const found of this.#unknownOf(open)) {
      try {
        if ('described' in found) await this.#importInstance(open, found);
        else await this.#importCustom(open, found);
        volumes.push(shown(open, found));
      } catch (error) {
        if (!isKeelsonError(error)) throw error;
        const what = `${'described' in found ? 'Instance' : 'Volume'} "${found.name}" in project "${found.project}"`;
        problems.push(`${what} on pool "${open.wanted.name}" cannot be recovered: ${error.message}`);
      }
    }
    await this.#keepImages(open);
    const known = this.#options.volumes.list(`${open.wanted.name}/`).map(({ value }) => refOf(value));
    if (!open.known && problems.length === 0) await open.pool.recover(known);
  }

  async #importCustom({ wanted, driver }: OpenPool, { found, project, name, note }: FoundCustom): Promise<void> {
    const { volumes, snapshots, ledger, now } = this.#options;
    const record: StorageVolumeRecord = {
      pool: wanted.name,
      project,
      type: 'custom',
      name,
      contentType: found.volume.contentType,
      description: note?.description ?? '',
      config: usableVolumeConfig(driver, note?.config ?? {}),
      createdAt: validTime(note?.createdAt) ?? now(),
    };
    const made = found.snapshots.map((snapshot): StorageVolumeSnapshotRecord => {
      const told = note?.snapshots.find((one) => one.name === snapshot);
      const { name: volume, ...rest } = record;
      return {
        ...rest,
        volume,
        name: snapshot,
        description: told?.description ?? '',
        config: told === undefined ? record.config : usableVolumeConfig(driver, told.config),
        createdAt: validTime(told?.createdAt) ?? now(),
        expiresAt: validTime(told?.expiresAt) ?? zeroTime,
      };
    });
    const id = volumeId(record);
    await ledger.transact(
      [volumes.unchanged(id, undefined)],
      [volumes.put(id, record), ...made.map((one) => snapshots.put(snapshotId(one), one))],
    );
  }

  async #importInstance({ wanted, pool, driver }: OpenPool, lost: FoundInstance): Promise<void> {
    const { instances, volumes, ledger } = this.#options;
    const { project, name, described, metadata, found } = lost;
    const { snapshots } = found;
    const planned = instances.plan({ pool: wanted.name, project, name, described, metadata, snapshots });
    await recoveryOf(pool, driver).adopt(found.volume, planned.shift);
    const root: StorageVolumeRecord = {
      pool: wanted.name,
      project,
      type: 'container',
      name,
      contentType: 'filesystem',
      description: described.volume?.description ?? '',
      config: usableVolumeConfig(driver, described.volume?.config ?? {}),
      createdAt: planned.record.createdAt,
    };
    const id = volumeId(root);
    const writes: Write[] = [volumes.put(id, root), ...this.#rootSnapshots(root, planned.snapshots)];
    await ledger.transact([volumes.unchanged(id, undefined)], [...writes, ...planned.writes]);
    await instances.announce(planned);
  }

  #rootSnapshots(
    root: StorageVolumeRecord,
    told: readonly { readonly name: string; readonly createdAt: string; readonly expiresAt: string }[],
  ): Write[] {
    const { snapshots } = this.#options;
    const { name: volume, ...rest } = root;
    return told.map(({ name, createdAt, expiresAt }) => {
      const record = { ...rest, volume, name, description: '', createdAt, expiresAt };
      return snapshots.put(snapshotId(record), record);
    });
  }

  /** Image volumes get records too: those that nothing needs go with the next start, others with the last root. */
  async #keepImages({ wanted, pool, content }: OpenPool): Promise<void> {
    const { volumes, now } = this.#options;
    const found = content.images.map(({ volume }) => volume.name).filter((name) => /^[0-9a-f]{64}$/.test(name));
    for (const { value } of volumes.list(`${wanted.name}/`)) {
      const image = value.type === 'container' ? await pool.roots.imageOf(refOf(value)) : undefined;
      if (image !== undefined) found.push(image);
    }
    for (const name of new Set(found)) {
      const record: StorageVolumeRecord = {
        pool: wanted.name,
        project: DEFAULT_PROJECT,
        type: 'image',
        name,
        contentType: 'filesystem',
        description: '',
        config: {},
        createdAt: now(),
      };
      if (volumes.get(volumeId(record)) === undefined) await volumes.create(volumeId(record), record);
    }
  }
}

/** @throws bad-request when the pool cannot be read without the records. */
function recoveryOf(pool: StoragePool, driver: string): PoolRecovery {
  if (pool.recovery !== undefined) return pool.recovery;
  throw errors.badRequest(`Storage pools of driver "${driver}" cannot be recovered by this server`);
}

function shown(
  { wanted }: OpenPool,
  { found, project, name }: { found: FoundVolume; project: string; name: string },
): UnknownVolume {
  return {
    pool: wanted.name,
    project,
    type: found.volume.type === 'custom' ? 'custom' : 'container',
    name,
    snapshots: found.snapshots,
  };
}

/** @throws bad-request naming the key. */
function checkPoolConfig(driver: string, config: Readonly<Record<string, string>>): void {
  const known = storageDrivers.find((name) => name === driver);
  if (known === undefined) throw errors.badRequest('Unknown driver');
  const [problem] = validateConfig(storagePoolConfig(known), config);
  if (problem !== undefined) throw errors.badRequest(problem.message);
}

/** What of a pool's own word this server would accept; where the pool is the user has said. */
function usablePoolConfig(driver: string, config: Readonly<Record<string, string>>): Record<string, string> {
  const known = storageDrivers.find((name) => name === driver);
  if (known === undefined) return {};
  return Object.fromEntries(
    Object.entries(config).filter(
      ([key, value]) =>
        key !== 'source' &&
        key !== 'size' &&
        !key.startsWith('volatile.') &&
        validateConfig(storagePoolConfig(known), { [key]: value }).length === 0,
    ),
  );
}

/** What of a volume's description this server would accept in a request; the rest falls away. */
function usableVolumeConfig(driver: string, config: Readonly<Record<string, string>>): Record<string, string> {
  const known = storageDrivers.find((name) => name === driver);
  if (known === undefined) return {};
  const table = storageVolumeConfig(known);
  return Object.fromEntries(
    Object.entries(config).filter(([key, value]) => validateConfig(table, { [key]: value }).length === 0),
  );
}

function validTime(text: string | undefined): string | undefined {
  return text === undefined || Number.isNaN(Date.parse(text)) ? undefined : text;
}
