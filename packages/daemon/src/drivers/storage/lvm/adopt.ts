import { stat } from 'node:fs/promises';
import { errors } from '../../../core/errors.ts';
import { attachLoop, detachLoop } from '../../../host/loop.ts';
import { lvm, lvmIfThere } from '../../../host/tools/lvm.ts';
import { blockFileSystem } from '../../../host/tools/block-fs.ts';
import { onDemandRecovery } from '../common/on-demand-recovery.ts';
import { VolumeNotes } from '../common/volume-notes.ts';
import type { PoolRecovery, PoolSpec, StoragePool, VolumeRef } from '../contract.ts';
import type { LvmContext } from './context.ts';
import { volumesAmong } from './found.ts';
import { logicalVolume } from './names.ts';
import { DEFAULT_THIN_POOL, placeOf } from './plan.ts';
import { groupCommand, type LogicalVolume, parseGroup, parseVolumes, volumesCommand } from './report.ts';
import { FOREIGN_TAGS, POOL_TAG, settledConfig, sourceOf } from './source.ts';
import type { LvmVolumes } from './volumes.ts';

/**
 * Config of a pool that is in a volume group already. Whether it is in a thin pool is seen there.
 * @throws bad-request when the group is not there, or holds no pool of a server.
 */
export async function reopenedConfig(spec: PoolSpec): Promise<Record<string, string>> {
  const source = sourceOf(spec);
  if (source.kind !== 'loop') return foundConfig(spec, settledConfig(spec, source));
  const file = await stat(source.file).catch(() => undefined);
  if (file?.isFile() !== true) throw errors.badRequest(`Loop file "${source.file}" doesn't exist`);
  const size = spec.config['size'] ?? `${file.size}B`;
  await attachLoop(source.file);
  try {
    return await foundConfig(spec, { ...settledConfig(spec, source), size });
  } catch (error) {
    await detachLoop(source.file);
    throw error;
  }
}

async function foundConfig(spec: PoolSpec, config: Record<string, string>): Promise<Record<string, string>> {
  const { group } = placeOf(spec.name, config);
  const text = await lvmIfThere(groupCommand(group));
  const found = text === undefined ? undefined : parseGroup(text);
  if (found === undefined) throw errors.badRequest(`The requested volume group "${group}" does not exist`);
  if (!found.tags.some((tag) => tag === POOL_TAG || FOREIGN_TAGS.includes(tag)))
    throw errors.badRequest(`Volume group "${group}" holds no storage pool: it has no server's tag`);
  const thinPool = thinPoolIn(parseVolumes(await lvm(volumesCommand(group))), spec.config);
  const { 'lvm.thinpool_name': _, ...rest } = config;
  if (thinPool === undefined) return { ...rest, 'lvm.use_thinpool': 'false' };
  return { ...rest, 'lvm.thinpool_name': thinPool };
}

/** The thin pool of the pool's volumes; undefined when they are plain. @throws bad-request when that is not there. */
export function thinPoolIn(
  volumes: readonly LogicalVolume[],
  config: Readonly<Record<string, string>>,
): string | undefined {
  const there = volumes.filter(({ kind }) => kind === 'thin-pool').map(({ name }) => name);
  const named = config['lvm.thinpool_name'];
  const thin = config['lvm.use_thinpool'];
  if (thin !== undefined && ['false', '0', 'no', 'off'].includes(thin.toLowerCase())) return undefined;
  const wanted = named ?? (there.length === 1 ? there[0] : DEFAULT_THIN_POOL);
  if (wanted !== undefined && there.includes(wanted)) return wanted;
  if (named === undefined && thin === undefined && there.length === 0) return undefined;
  throw errors.badRequest(
    `LVM thin pool "${wanted ?? DEFAULT_THIN_POOL}" does not exist: name it with lvm.thinpool_name`,
  );
}

/** Notes of the pool, on a logical volume of their own. */
export function notesOf({ path, volumes }: LvmContext, all: LvmVolumes): VolumeNotes {
  const config = () => ({ size: volumes.thin ? '1GiB' : '64MiB', 'block.filesystem': 'ext4' });
  return new VolumeNotes({ path, volumes: all, config, stays: true });
}

export function recoveryOf(
  context: LvmContext,
  pool: Pick<StoragePool, 'volumes' | 'roots' | 'snapshots' | 'quota'>,
  { all, notes }: { readonly all: LvmVolumes; readonly notes: VolumeNotes },
): PoolRecovery {
  const { path, staging, newId, volumes } = context;
  return onDemandRecovery({
    path,
    staging,
    newId,
    pool,
    notes,
    mounter: all.mounter,
    alone: (volume, work) => all.exclusively(volume, work),
    found: async () => {
      const there = (await volumes.list()).filter((one) =>
        volumes.thin ? one.pool === volumes.place.thinPool : one.pool === '',
      );
      return volumesAmong(there.map(({ name }) => name));
    },
    snapshotsOf: (volume) => all.listSnapshots(volume),
    likeness: (volume) => likeness(context, volume),
  });
}

async function likeness({ volumes }: LvmContext, volume: VolumeRef): Promise<Record<string, string>> {
  const name = logicalVolume(volume);
  const found = await volumes.find(name);
  if (found === undefined) throw errors.notFound('Storage volume not found');
  const type = await blockFileSystem(await volumes.activate(name));
  return { size: String(found.size), ...(type === undefined ? {} : { 'block.filesystem': type }) };
}
