import { stat } from 'node:fs/promises';
import { errors } from '../../../core/errors.ts';
import { CommandError } from '../../../host/run.ts';
import { zfs } from '../../../host/tools/zfs.ts';
import { onDemandRecovery } from '../common/on-demand-recovery.ts';
import { VolumeNotes } from '../common/volume-notes.ts';
import type { PoolRecovery, PoolSpec, StoragePool, VolumeRef } from '../contract.ts';
import { Datasets, type ZfsContext } from './context.ts';
import { volumesBelow } from './found.ts';
import { datasetOf, userSnapshot } from './names.ts';
import { rootDataset, settledConfig, sourceOf, zpoolOf } from './source.ts';
import type { ZfsVolumes } from './volumes.ts';

/** Folders of a pool that every server makes with it. */
const MARKS = ['containers', 'custom'];

/**
 * Config of a pool that is in a zpool or dataset already, which is imported for that.
 * @throws bad-request when it is not there, or holds no pool of a server.
 */
export async function reopenedConfig(spec: PoolSpec): Promise<Record<string, string>> {
  const source = sourceOf(spec);
  const config = settledConfig(spec, source);
  const datasets = new Datasets(rootDataset({ ...spec, config }));
  const { root } = datasets;
  const file = source.kind === 'loop' ? source.file : undefined;
  const size = file === undefined ? undefined : await sizeOfFile(file);
  const imported = !(await datasets.exists(root)) && (await importZpool(zpoolOf(root), file));
  const names = new Set((await datasets.all()).map(({ name }) => name));
  if (MARKS.every((mark) => names.has(`${root}/${mark}`)))
    return size === undefined ? config : { ...config, size: spec.config['size'] ?? `${size}B` };
  if (imported) await zfs(['zpool', 'export', zpoolOf(root)]);
  throw errors.badRequest(
    names.has(root) ? `The dataset "${root}" holds no storage pool` : `The dataset "${root}" does not exist`,
  );
}

async function sizeOfFile(file: string): Promise<number> {
  const found = await stat(file).catch(() => undefined);
  if (found?.isFile() !== true) throw errors.badRequest(`Loop file "${file}" doesn't exist`);
  return found.size;
}

/** False when there is none to import. */
async function importZpool(name: string, file: string | undefined): Promise<boolean> {
  try {
    // A file is this server's own, whichever host had it before.
    await zfs(['zpool', 'import', ...(file === undefined ? [] : ['-N', '-f', '-d', file]), name]);
    return true;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    if (/no such pool/.test(error.stderr)) return false;
    throw errors.badRequest(`Cannot import the zpool "${name}": ${error.stderr.trim()}`, error);
  }
}

/** Notes of the pool, in a dataset of their own. */
export function notesOf({ path }: ZfsContext, all: ZfsVolumes): VolumeNotes {
  return new VolumeNotes({ path, volumes: all, config: () => ({}), stays: false });
}

export function recoveryOf(
  context: ZfsContext,
  pool: Pick<StoragePool, 'volumes' | 'roots' | 'snapshots' | 'quota'>,
  { all, notes }: { readonly all: ZfsVolumes; readonly notes: VolumeNotes },
): PoolRecovery {
  const { path, staging, newId, datasets } = context;
  return onDemandRecovery({
    path,
    staging,
    newId,
    pool,
    notes,
    mounter: all.mounter,
    alone: (volume, work) => all.exclusively(volume, work),
    found: () => volumesBelow(datasets),
    snapshotsOf: async (volume) =>
      (await datasets.snapshots(datasetOf(datasets.root, volume))).flatMap((name) => userSnapshot(name) ?? []),
    likeness: (volume) => likeness(context, volume),
  });
}

/** The limit, whether or not snapshots count. */
async function likeness({ datasets }: ZfsContext, volume: VolumeRef): Promise<Record<string, string>> {
  const dataset = datasetOf(datasets.root, volume);
  const limits = [await datasets.property(dataset, 'quota'), await datasets.property(dataset, 'refquota')];
  const [quota = 0, refquota = 0] = limits.map((text) => Number(text ?? 0));
  if (quota > 0) return { size: String(quota) };
  return refquota > 0 ? { size: String(refquota), 'zfs.use_refquota': 'true' } : {};
}
