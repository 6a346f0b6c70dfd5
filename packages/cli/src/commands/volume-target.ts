import type { Operation } from '@keelson/api';
import type { Client, StorageVolume } from '@keelson/client';
import type { ApiResponse } from '@keelson/client';
import { UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { answerOf } from './answer.ts';

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

/** `pool/volume` or `pool/volume/snapshot`, the pool with its remote. @throws UsageError */
export function placeOf(word: string): { pool: string; name: string; snapshot: string | undefined } {
  const [pool = '', name = '', snapshot, ...more] = word.split('/');
  if (pool === '' || name === '' || snapshot === '' || more.length > 0)
    throw new UsageError(`"${word}" is not of the form pool/volume`);
  return { pool, name, snapshot };
}

/** Sends a request and shows the progress of the operation that it starts until that ends. @throws APIException */
export async function follow(
  context: Context,
  client: Client,
  label: string,
  request: Promise<ApiResponse>,
): Promise<void> {
  const { signal, out } = context;
  out.progress(`${label} …`);
  const started = await answerOf<Partial<Operation> | null>(request);
  if (started?.id !== undefined)
    await client.operations.waitForOperation(started.id, { signal, onProgress: out.operation(label) });
  out.clearProgress();
}
