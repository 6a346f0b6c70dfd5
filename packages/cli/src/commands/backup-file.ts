import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { Download, ProgressOptions } from '@keelson/client';
import type { Context } from '../context.ts';
import { counted } from '../input.ts';

/** Something that can be backed up: an instance or a custom volume. */
export interface BackedUp<Make extends object> {
  readonly name: string;
  readonly backups: {
    create(definition: Make & { readonly name: string }, options: ProgressOptions): Promise<void>;
    export(name: string, options: ProgressOptions): Promise<Download>;
    delete(name: string): Promise<void>;
  };
}

/** Makes a backup, writes it to `file` and deletes it on the server again, also when writing failed. */
export async function saveBackup<Make extends object>(
  context: Context,
  source: BackedUp<Make>,
  file: string,
  make: Make,
): Promise<void> {
  const { signal, out } = context;
  const name = `export-${Date.now()}`;
  const label = `Backing up ${source.name}`;
  out.progress(`${label} …`);
  await source.backups.create({ ...make, name }, { signal, onProgress: out.operation(label) });
  try {
    const download = await source.backups.export(name, { signal });
    const told = out.bytes(`Writing ${file}`, download.size);
    await pipeline(download, counted(told), createWriteStream(file));
  } finally {
    await source.backups.delete(name);
  }
  out.clearProgress();
}
