import type { StorageVolume } from '@keelson/client';
import { UsageError } from '../command.ts';
import type { Context } from '../context.ts';

export const pool = { name: 'pool', summary: 'name of the pool' } as const;
export const volume = { name: 'volume', summary: 'name of the volume; type/name for one that is not custom' } as const;
/** Of commands that also work on a snapshot. */
export const volumeOrSnapshot = { ...volume, summary: `${volume.summary}; volume/snapshot for a snapshot` } as const;

const TYPES = ['custom', 'container', 'virtual-machine', 'image'];

/** `volume`, `volume/snapshot`, and both behind `type/`. @throws UsageError */
export function partsOf(word: string): { type: string; name: string; snapshot: string | undefined } {
  const parts = word.split('/');
  const type = parts.length > 1 && TYPES.includes(parts[0] ?? '') ? parts.shift() : undefined;
  const [name = '', snapshot, ...more] = parts;
  if (name === '' || snapshot === '' || more.length > 0)
    throw new UsageError(`"${word}" is neither a volume nor volume/snapshot, with or without its type before`);
  return { type: type ?? 'custom', name, snapshot };
}

/** `type/name`, or the name of a custom volume. @throws UsageError for a snapshot */
export function typed(word: string): { type: string; name: string } {
  const { type, name, snapshot } = partsOf(word);
  if (snapshot !== undefined) throw new UsageError(`"${word}" is a snapshot; name a volume`);
  return { type, name };
}

/** @throws NotFound */
export async function findVolume(context: Context, poolWord: string, word: string): Promise<StorageVolume> {
  const target = context.target(poolWord);
  const { type, name } = typed(word);
  return (await target.client.storagePools.get(target.name)).volumes.get(type, name);
}

/** `pool/volume` or `pool/volume/snapshot`, the pool with its remote. @throws UsageError */
export function placeOf(word: string): { pool: string; name: string; snapshot: string | undefined } {
  const [pool = '', name = '', snapshot, ...more] = word.split('/');
  if (pool === '' || name === '' || snapshot === '' || more.length > 0)
    throw new UsageError(`"${word}" is not of the form pool/volume`);
  return { pool, name, snapshot };
}

/** The volume that `volume/snapshot` is of, and the snapshot. @throws NotFound */
export async function findPart(
  context: Context,
  poolWord: string,
  word: string,
): Promise<{ readonly found: StorageVolume; readonly snapshot: string | undefined }> {
  const target = context.target(poolWord);
  const { type, name, snapshot } = partsOf(word);
  const { volumes } = await target.client.storagePools.get(target.name);
  return { found: await volumes.get(type, name), snapshot };
}
