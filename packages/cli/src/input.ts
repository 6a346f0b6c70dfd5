import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { UsageError } from './command.ts';

/** The bytes of a file, opened before anything is sent; `-` is standard input. @throws UsageError when it cannot be read */
export async function openInput(path: string): Promise<Readable> {
  if (path === '-') return process.stdin;
  try {
    const file = await open(path);
    if ((await file.stat()).isFile()) return file.createReadStream();
    await file.close();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new UsageError(
      `Cannot read ${path}: ${code === 'ENOENT' ? 'there is no such file' : (error as Error).message}`,
    );
  }
  throw new UsageError(`Cannot read ${path}: it is no file`);
}
