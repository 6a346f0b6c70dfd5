import { isKeelsonError } from '../../../core/errors.ts';
import { BLOCK_FILE_SYSTEMS } from '../../../host/tools/block-fs.ts';
import type { ContentType } from '../types.ts';
import type { FoundVolume, VolumeRef } from '../contract.ts';
import type { RbdImages } from './images.ts';
import { imageName, userSnapshot } from './names.ts';

/** Volumes of users and images in an OSD pool, by the names of RBD images. */
export async function volumesIn(images: Pick<RbdImages, 'list' | 'snapshots'>): Promise<readonly FoundVolume[]> {
  const found: FoundVolume[] = [];
  for (const image of (await images.list()).sort()) {
    const volume = volumeOfImage(image);
    if (volume === undefined) continue;
    const snapshots = volume.type === 'image' ? [] : await images.snapshots(image);
    found.push({ volume, snapshots: snapshots.flatMap(({ name }) => userSnapshot(name) ?? []).sort() });
  }
  return found;
}

/** What the RBD image is of; undefined for what is no volume, such as the config volume LXD has beside a virtual machine's. */
export function volumeOfImage(image: string): VolumeRef | undefined {
  const [, kind = '', rest = ''] = /^(container|virtual-machine|custom|image)_(.*)$/s.exec(image) ?? [];
  if (kind === '') return undefined;
  const [, name = '', suffix = ''] = /^(.*?)(\.block|\.iso)?$/s.exec(rest) ?? [];
  const contentType: ContentType = suffix === '.block' ? 'block' : suffix === '.iso' ? 'iso' : 'filesystem';
  if (kind === 'container') return written({ type: kind, name: rest, contentType: 'filesystem' }, image);
  if (kind === 'custom') return written({ type: kind, name, contentType }, image);
  if (kind === 'virtual-machine')
    return suffix === '.block' ? written({ type: kind, name, contentType }, image) : undefined;
  return written({ type: 'image', name: name.replace(FILE_SYSTEM, ''), contentType }, image);
}

const FILE_SYSTEM = new RegExp(`_(?:${BLOCK_FILE_SYSTEMS.join('|')})$`);

/** Only what this driver would call so. */
function written(volume: VolumeRef, image: string): VolumeRef | undefined {
  try {
    return BLOCK_FILE_SYSTEMS.some((fileSystem) => imageName(volume, fileSystem) === image) ? volume : undefined;
  } catch (error) {
    if (isKeelsonError(error, 'bad-request')) return undefined;
    throw error;
  }
}
