import type { Stats } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import type { RootMount } from '../contract.ts';

/**
 * Folder of a container's root in its volume. Native streams, and pools of other servers, may have a link in its place,
 * which would lead to the host's files.
 * @throws not-found, bad-request for what is no folder.
 */
export async function rootIn(volume: string): Promise<string> {
  const path = join(volume, 'rootfs');
  const found = await look(path);
  if (found === undefined) throw errors.notFound('Storage volume not found');
  if (!found.isDirectory()) throw errors.badRequest('The volume holds no root file system: its rootfs is no folder');
  return path;
}

/** The same for the file that holds a block volume; undefined when it is not there. */
export async function blocksIn(volume: string, name: string): Promise<string | undefined> {
  const path = join(volume, name);
  const found = await look(path);
  if (found === undefined) return undefined;
  if (!found.isFile()) throw errors.badRequest(`The volume holds no blocks: its ${name} is no file`);
  return path;
}

/** The same for the folder of a virtual machine's disk. */
export async function machineIn(folder: string): Promise<RootMount> {
  await blocksIn(folder, 'root.img');
  return { path: folder, ids: 'plain' };
}

async function look(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
