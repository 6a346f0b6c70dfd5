import { isKeelsonError } from '../../../core/errors.ts';
import type { FoundVolume, VolumeRef } from '../contract.ts';
import type { ContentType } from '../types.ts';
import type { Datasets } from './context.ts';
import { datasetOf, userSnapshot } from './names.ts';

/** Volumes of users and images below the pool's dataset, with their snapshots. */
export async function volumesBelow(
  datasets: Pick<Datasets, 'root' | 'all' | 'snapshots'>,
): Promise<readonly FoundVolume[]> {
  const found: FoundVolume[] = [];
  for (const { name } of await datasets.all()) {
    const volume = volumeOfDataset(datasets.root, name);
    if (volume === undefined) continue;
    const snapshots = volume.type === 'image' ? [] : await datasets.snapshots(name);
    found.push({ volume, snapshots: snapshots.flatMap((one) => userSnapshot(one) ?? []).sort() });
  }
  return found;
}

const TYPES = {
  containers: 'container',
  'virtual-machines': 'virtual-machine',
  custom: 'custom',
  images: 'image',
} as const;

/** What the dataset is of; undefined for what is no volume, such as the config volume LXD has beside a virtual machine's. */
export function volumeOfDataset(root: string, dataset: string): VolumeRef | undefined {
  if (!dataset.startsWith(`${root}/`)) return undefined;
  const below = dataset.slice(root.length + 1);
  const [, folder = '', rest = ''] = /^(containers|virtual-machines|custom|images)\/([^/]+)$/.exec(below) ?? [];
  if (folder === '') return undefined;
  const type = TYPES[folder as keyof typeof TYPES];
  const [, name = '', suffix = ''] = type === 'container' ? [rest, rest] : (/^(.*?)(\.block|\.iso)?$/.exec(rest) ?? []);
  if (type === 'virtual-machine' && suffix !== '.block') return undefined;
  const contentType: ContentType = suffix === '.block' ? 'block' : suffix === '.iso' ? 'iso' : 'filesystem';
  return written({ type, name, contentType }, root, dataset);
}

/** Only what this driver would call so. */
function written(volume: VolumeRef, root: string, dataset: string): VolumeRef | undefined {
  try {
    return datasetOf(root, volume) === dataset ? volume : undefined;
  } catch (error) {
    if (isKeelsonError(error, 'bad-request')) return undefined;
    throw error;
  }
}
