import { mkdir, readdir, readlink, rm, rmdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { isMountPoint } from '../../../host/mounts.ts';
import { errnoOf } from '../../../host/syscalls.ts';

/** A folder in which `link` names a device, also where it named another before. */
export async function linkFolder(folder: string, link: string, device: string): Promise<string> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, link);
  const known = await readlink(path).catch(() => undefined);
  if (known === device) return folder;
  await rm(path, { force: true });
  await symlink(device, path);
  return folder;
}

/** Removes a mount point that nothing is mounted at, with the link to a device in it. */
export async function removePoint(path: string): Promise<void> {
  if (isMountPoint(path)) return;
  await rm(join(path, 'root.img'), { force: true }).catch(() => undefined);
  await rmdir(path).catch((error: unknown) => {
    if (!['ENOENT', 'ENOTEMPTY', 'ENOTDIR'].includes(errnoOf(error) ?? '')) throw error;
  });
}

/** Removes the mount points of a folder that nothing is mounted at. */
export async function removePoints(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name);
    if (folder.endsWith('-snapshots')) await removePoints(path);
    await removePoint(path);
  }
}
