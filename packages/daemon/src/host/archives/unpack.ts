import { chmod, chown, lstat, mkdtemp, readdir, rename, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../core/errors.ts';
import { extractSquashfs } from '../tools/squashfs.ts';
import { extractTar } from '../tools/tar.ts';
import { formatOfFile } from './format.ts';
import { checkArchive, type ImageFileSet } from './inspect.ts';

export interface UnpackOptions {
  readonly signal?: AbortSignal;
}

/**
 * Unpacks the root file system of an image that was inspected when it came in, so that `target` (an existing empty
 * folder) becomes the guest's `/`. Files keep guest ids, modes, attributes, ACLs, hard links and holes.
 * @throws bad-request for a virtual machine's image: its root is a disk.
 */
export async function unpackRoot(files: ImageFileSet, target: string, options: UnpackOptions = {}): Promise<void> {
  if (files.root === undefined) return unpackUnified(files.main, target, options);
  const { path, disk } = files.root;
  const format = await formatOfFile(path);
  if (disk || format.kind === 'qcow2') throw noFolder();
  if (format.kind === 'squashfs') await extractSquashfs(path, target, options);
  else await extractTar({ path, compression: format.compression }, target, options);
}

/** `rootfs/` of a unified image; it is unpacked beside its future place and moved up entry by entry. */
async function unpackUnified(path: string, target: string, options: UnpackOptions): Promise<void> {
  const format = await formatOfFile(path);
  if (format.kind === 'qcow2') throw noFolder();
  const staging = await mkdtemp(join(target, '.keelson-unpack-'));
  if (format.kind === 'squashfs') await extractSquashfs(path, staging, { ...options, member: 'rootfs' });
  else {
    const { rootNames } = await checkArchive(path, { format, content: 'unified' }, options);
    if (rootNames.length === 0) throw noFolder();
    await extractTar({ path, compression: format.compression }, staging, { ...options, members: rootNames });
  }
  const root = join(staging, 'rootfs');
  const found = await lstat(root);
  if (!found.isDirectory()) throw noFolder();
  for (const name of await readdir(root, { encoding: 'buffer' })) {
    await rename(Buffer.concat([Buffer.from(`${root}/`), name]), Buffer.concat([Buffer.from(`${target}/`), name]));
  }
  await rmdir(root);
  await rmdir(staging);
  await chown(target, found.uid, found.gid);
  await chmod(target, found.mode & 0o7777);
}

function noFolder(): Error {
  return errors.badRequest('The image has no root file system to unpack');
}
