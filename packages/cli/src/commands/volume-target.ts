import type { StorageVolume } from '@keelson/client';
import type { Context } from '../context.ts';

export const pool = { name: 'pool', summary: 'name of the pool' } as const;
export const volume = { name: 'volume', summary: 'name of the volume; type/name for one that is not custom' } as const;

/** `type/name`, or the name of a custom volume. */
export function typed(word: string): { type: string; name: string } {
  const at = word.indexOf('/');
  return at < 0 ? { type: 'custom', name: word } : { type: word.slice(0, at), name: word.slice(at + 1) };
}

/** @throws NotFound */
export async function findVolume(context: Context, poolWord: string, word: string): Promise<StorageVolume> {
  const target = context.target(poolWord);
  const { type, name } = typed(word);
  return (await target.client.storagePools.get(target.name)).volumes.get(type, name);
}
