import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { InstanceBackups, StorageVolumeBackups } from '@keelson/client';
import type { Context } from '../context.ts';

/** Something that can be backed up: an instance or a custom volume. */
export interface BackedUp {
  readonly name: string;
  readonly backups: Pick<InstanceBackups | StorageVolumeBackups, 'export' | 'delete'>;
}

/** Makes a backup with `create`, writes it to `file` and deletes it on the server again, also when writing failed. */
export async function saveBackup(
  context: Context,
  source: BackedUp,
  file: string,
  create: (name: string) => Promise<unknown>,
): Promise<void> {
  const { signal } = context;
  const name = `export-${Date.now()}`;
  context.out.progress(`Backing up ${source.name} …`);
  await create(name);
  try {
    await pipeline(await source.backups.export(name, { signal }), createWriteStream(file));
  } finally {
    await source.backups.delete(name);
  }
}
