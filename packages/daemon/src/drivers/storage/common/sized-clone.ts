import { isKeelsonError } from '../../../core/errors.ts';
import { copyTree } from '../../../host/files.ts';
import type { RootOptions, VolumeRef, Volumes } from '../contract.ts';

/** Volumes that are file systems of their own, or devices. */
interface ClonableVolumes extends Pick<Volumes, 'copy' | 'createFilled' | 'delete' | 'mount'> {
  resize(volume: VolumeRef, size: number): Promise<void>;
}

/** A clone of `size` bytes; where its file system cannot shrink to that, a smaller one with the same files. */
export async function sizedClone(
  volumes: ClonableVolumes,
  [image, volume]: readonly [image: VolumeRef, volume: VolumeRef],
  options: RootOptions,
  size: number | undefined,
): Promise<void> {
  await volumes.copy(image, volume, options);
  if (size === undefined) return;
  try {
    await volumes.resize(volume, size);
  } catch (error) {
    await volumes.delete(volume);
    if (!isKeelsonError(error, 'bad-request') || volume.contentType !== 'filesystem') throw error;
    const from = await volumes.mount(image);
    await volumes.createFilled(volume, (path) => copyTree(from, path), options);
  }
}
