import { chmod, lstat, mkdir, realpath, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { StatePaths } from '../core/paths.ts';
import { unmountTree } from '../host/mounts.ts';

/** Makes the folders of the state folder that everybody expects; empties the scratch folder. */
export async function prepareStateFolder(paths: StatePaths): Promise<void> {
  await mkdir(paths.root, { recursive: true, mode: 0o711 });
  await chmod(paths.root, 0o711); // guests' monitors pass through it
  // A transfer that was killed leaves mounts, through which what is mounted would be emptied too.
  await unmountTree(join(await realpath(paths.root), basename(paths.scratch)));
  await rm(paths.scratch, { recursive: true, force: true });
  const open = [dirname(paths.pool('x')), paths.disks, dirname(paths.network('x'))];
  const closed = [paths.scratch, dirname(paths.logs('x')), dirname(paths.devices('x'))];
  // Those two may be links to volumes that are not mounted yet.
  for (const path of [paths.images, paths.backups]) {
    if (!(await isLink(path))) closed.push(path);
  }
  for (const path of open) await mkdir(path, { recursive: true, mode: 0o711 });
  for (const path of closed) await mkdir(path, { recursive: true, mode: 0o700 });
}

async function isLink(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  return found?.isSymbolicLink() === true;
}
