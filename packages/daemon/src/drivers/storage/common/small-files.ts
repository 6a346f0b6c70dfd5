import { constants } from 'node:fs';
import { lstat, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { errnoOf } from '../../../host/syscalls.ts';

/** Bytes of a file that is still read. */
const LIMIT = 4 * 1024 ** 2;

/**
 * Writes small files (path → content) below the folder, each replaced in one step; those that hold their content already
 * stay. No link in the folder is followed, and a folder that goes meanwhile is no error.
 */
export async function writeSmallFiles(folder: string, files: ReadonlyMap<string, string>): Promise<void> {
  for (const [name, content] of files) {
    if ((await readSmallFile(folder, name)) === content) continue;
    await replaceFile(folder, name, content).catch((error: unknown) => {
      if (errnoOf(error) !== 'ENOENT') throw error;
    });
  }
}

/** Undefined for what is not there, behind a link, or no plain file of a few megabytes. @throws bad-request for the name. */
export async function readSmallFile(folder: string, name: string): Promise<string | undefined> {
  const parts = plainName(name).split('/');
  // None of the folders on the way may be a link: a pool can come from another machine.
  for (let length = 0; length < parts.length; length++) {
    if (!(await isFolder(join(folder, ...parts.slice(0, length))))) return undefined;
  }
  return readFileAt(join(folder, ...parts));
}

export async function isFolder(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isDirectory();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return false;
    throw error;
  }
}

/** @throws bad-request for what is not one or two plain path components. */
function plainName(name: string): string {
  const parts = name.split('/');
  if (parts.length > 2 || parts.some((part) => part === '' || part === '.' || part === '..' || part.includes('\0')))
    throw errors.badRequest(`Invalid file name "${name}"`);
  return name;
}

/** What stands in the file's place or in that of its new version is never followed. */
async function replaceFile(folder: string, name: string, content: string): Promise<void> {
  const path = join(folder, name);
  const fresh = join(dirname(path), `.${name.slice(name.lastIndexOf('/') + 1)}.new`);
  if (dirname(path) !== folder && !(await isFolder(dirname(path)))) {
    await rm(dirname(path), { force: true }); // a link, which came with the volume
    await mkdir(dirname(path), { mode: 0o700 });
  }
  await rm(fresh, { force: true });
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const handle = await open(fresh, flags, 0o400);
  try {
    await handle.writeFile(content);
    await handle.datasync();
  } finally {
    await handle.close();
  }
  await rename(fresh, path);
}

async function readFileAt(path: string): Promise<string | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(path, flags).catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EISDIR'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  });
  if (handle === undefined) return undefined;
  try {
    const found = await handle.stat();
    if (!found.isFile() || found.size > LIMIT) return undefined;
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}
