import { chmod, chown, stat } from 'node:fs/promises';
import type { RootMount, RootOptions } from '../contract.ts';
import { rootIn } from './plain-content.ts';

/** Makes the folder `path` around a container's root belong to its range, so that its own root may pass and nobody else. */
export async function passableRoot(path: string, { idRange }: RootOptions): Promise<RootMount> {
  const base = idRange?.base ?? 0;
  const found = await stat(path);
  if (found.uid !== base) await chown(path, base, base);
  if ((found.mode & 0o7777) !== 0o100) await chmod(path, 0o100);
  return { path: await rootIn(path), ids: 'plain' };
}
