import { chmod, mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { StatePaths } from '../core/paths.ts';

/** Makes the folders of the state folder that everybody expects; empties the scratch folder. */
export async function prepareStateFolder(paths: StatePaths): Promise<void> {
  await mkdir(paths.root, { recursive: true, mode: 0o711 });
  await chmod(paths.root, 0o711); // guests' monitors pass through it
  await rm(paths.scratch, { recursive: true, force: true });
  const open = [dirname(paths.pool('x')), paths.disks, dirname(paths.network('x'))];
  const closed = [paths.images, paths.backups, paths.scratch, dirname(paths.logs('x')), dirname(paths.devices('x'))];
  for (const path of open) await mkdir(path, { recursive: true, mode: 0o711 });
  for (const path of closed) await mkdir(path, { recursive: true, mode: 0o700 });
}
