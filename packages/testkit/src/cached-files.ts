import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lock } from './machine-lock.ts';

/**
 * A folder of files that is built once per machine and kept in the temp folder. `version` changes when `build`
 * would make something else.
 */
export async function cachedFiles(
  name: string,
  version: string,
  build: (folder: string) => Promise<void>,
): Promise<string> {
  const root = join(tmpdir(), 'keelson-test-images');
  const folder = join(root, `${name}-${version}`);
  if (existsSync(folder)) return folder;
  mkdirSync(root, { recursive: true });
  using _held = await lock(join(root, `${name}.lock`));
  if (existsSync(folder)) return folder;
  const half = `${folder}.half`;
  rmSync(half, { recursive: true, force: true });
  mkdirSync(half);
  await build(half);
  renameSync(half, folder);
  return folder;
}
