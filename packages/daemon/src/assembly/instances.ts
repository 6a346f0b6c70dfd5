import { readFile } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import type { IdRange, InstanceDriver } from '../drivers/instance/contract.ts';
import { VolumeArchives } from '../host/archives/volume-archive.ts';
import { GuestTrees } from '../host/guest-tree.ts';
import { readMachineFacts } from '../host/host-facts.ts';
import { instanceBackupRoutes } from '../http/routes/instance-backups.ts';
import { instanceFileRoutes } from '../http/routes/instance-files.ts';
import { instanceSnapshotRoutes } from '../http/routes/instance-snapshots.ts';
import { instanceRoutes } from '../http/routes/instances.ts';
import type { InstanceGuard } from '../services/instances/deps.ts';
import { InstanceService } from '../services/instances/instance-service.ts';
import type {
  InstanceImages,
  InstanceNetworks,
  InstanceStorage,
  InstanceVolumes,
} from '../services/instances/ports.ts';
import type { Migrations } from '../services/migration/migrations.ts';
import type { Foundations } from './foundations.ts';
import type { Vertical } from './vertical.ts';

export interface InstanceParts {
  readonly driver: InstanceDriver;
  readonly storage: InstanceStorage;
  readonly volumes: InstanceVolumes;
  readonly migrations: Migrations;
  readonly images: InstanceImages;
  readonly networks: InstanceNetworks;
  readonly guard: InstanceGuard;
  /** `backups.compression_algorithm` of the server. */
  readonly backupCompression: () => string;
}

export interface InstancesVertical extends Vertical {
  readonly service: InstanceService;
}

/** Instances, on top of what the other rooms give them. */
export async function instancesVertical(
  base: Foundations,
  parts: InstanceParts,
  stack: AsyncDisposableStack,
): Promise<InstancesVertical> {
  const { records, ids, clock } = base;
  const service = stack.use(
    new InstanceService({
      ...parts,
      ledger: base.ledger,
      collections: {
        instances: records.instances,
        snapshots: records.instanceSnapshots,
        backups: records.instanceBackups,
        metadata: records.instanceMetadata,
        profiles: records.profiles,
        projects: records.projects,
        pools: records.storagePools,
      },
      operations: base.operations,
      events: base.events,
      intents: base.intents,
      files: new GuestTrees(),
      archives: new VolumeArchives(base.paths.incomingBackups, base.gates.backups),
      paths: base.paths,
      log: base.log,
      now: () => clock.now(),
      entropy: { uuid: () => ids.uuid(), hex: (length) => ids.secret(Math.ceil(length / 2)).slice(0, length) },
      random: Math.random,
      hostIds: await readHostIds(),
      capacity: { cpus: await readCpus(), memory: totalmem() },
      architecture: (await readMachineFacts()).architecture,
    }),
  );
  return {
    service,
    routes: [
      ...instanceRoutes(service),
      ...instanceSnapshotRoutes(service),
      ...instanceFileRoutes(service),
      ...instanceBackupRoutes(service),
    ],
    prepare: () => service.findGuests(),
    start: () => service.settle(),
    afterReady: async () => service.resume((await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim()),
  };
}

/** First range of the daemon's user in /etc/subuid that /etc/subgid has too; liblxc may map only such ids. */
async function readHostIds(): Promise<IdRange> {
  const [users, groups] = await Promise.all([readRanges('/etc/subuid'), readRanges('/etc/subgid')]);
  const shared = users.find((range) => groups.some((other) => other.base === range.base && other.size === range.size));
  return shared ?? users[0] ?? { base: 1_000_000, size: 1_000_000_000 };
}

async function readRanges(path: string): Promise<IdRange[]> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text
    .split('\n')
    .map((line) => line.split(':'))
    .filter(([user]) => user === 'root' || user === '0')
    .map(([, base, size]) => ({ base: Number(base), size: Number(size) }))
    .filter(({ base, size }) => base > 0 && size >= 65_536);
}

/** Ids of the CPUs that are on. */
async function readCpus(): Promise<number[]> {
  const text = await readFile('/sys/devices/system/cpu/online', 'utf8').catch(() => '');
  const ids = text
    .trim()
    .split(',')
    .flatMap((part) => {
      const [first, last] = part.split('-').map(Number);
      if (part === '' || first === undefined || Number.isNaN(first)) return [];
      return Array.from({ length: (last ?? first) - first + 1 }, (_, index) => first + index);
    });
  return ids.length > 0 ? ids : Array.from({ length: availableParallelism() }, (_, id) => id);
}
