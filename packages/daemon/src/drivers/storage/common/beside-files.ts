import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/**
 * Small files (path → content) into the folder above a root, in the place of those that are there: no guest ever wrote
 * there, but another server may have.
 */
export async function putBeside(folder: string, files: ReadonlyMap<string, string>): Promise<void> {
  for (const name of new Set([...files.keys()].map((path) => path.split('/')[0] ?? path)))
    await rm(join(folder, name), { recursive: true, force: true });
  for (const [path, text] of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text, { mode: 0o644, flag: 'wx' });
  }
}
