import { lstat, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../core/errors.ts';
import { run } from '../run.ts';
import { extractSquashfs } from '../tools/squashfs.ts';
import { extractTar } from '../tools/tar.ts';
import { formatOfFile } from './format.ts';
import { checkArchive, type ImageFileSet } from './inspect.ts';

export interface UnpackOptions {
  readonly signal?: AbortSignal;
}

const HOUR = 3_600_000;

/**
 * Unpacks an image that was inspected when it came in into `target`, an existing empty folder: `rootfs/` of a
 * container, `root.img` of a virtual machine. Files keep guest ids, modes, attributes, ACLs, hard links and holes.
 */
export async function unpackImage(files: ImageFileSet, target: string, options: UnpackOptions = {}): Promise<void> {
  if (files.root === undefined) await unpackUnified(files.main, target, options);
  else if (files.root.disk) await unpackDisk(files.root.path, target, options);
  else await unpackSplit(files.root.path, join(target, 'rootfs'), options);
}

async function unpackSplit(path: string, target: string, options: UnpackOptions): Promise<void> {
  const format = await formatOfFile(path);
  if (format.kind === 'qcow2') throw noRoot();
  await mkdir(target, { mode: 0o755 });
  if (format.kind === 'squashfs') await extractSquashfs(path, target, options);
  else await extractTar({ path, compression: format.compression }, target, options);
}

async function unpackUnified(path: string, target: string, options: UnpackOptions): Promise<void> {
  const format = await formatOfFile(path);
  if (format.kind === 'qcow2') throw noRoot();
  if (format.kind === 'squashfs') {
    await extractSquashfs(path, target, { ...options, member: 'rootfs' });
  } else {
    const { rootNames, disk } = await checkArchive(path, { format, content: 'unified' }, options);
    if (disk !== undefined) throw errors.notImplemented('A virtual machine image must be split');
    if (rootNames.length === 0) throw noRoot();
    await extractTar({ path, compression: format.compression }, target, { ...options, members: rootNames });
  }
  if (!(await lstat(join(target, 'rootfs'))).isDirectory()) throw noRoot();
}

/** The disk stands alone (checked at import), so the converter opens no other file. */
async function unpackDisk(path: string, target: string, { signal }: UnpackOptions): Promise<void> {
  const args = ['convert', '-f', 'qcow2', '-O', 'raw', path, join(target, 'root.img')];
  await run('qemu-img', args, { timeout: HOUR, ...(signal === undefined ? {} : { signal }) });
}

function noRoot(): Error {
  return errors.badRequest('The image has no root file system to unpack');
}
