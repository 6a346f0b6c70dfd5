import { close, constants } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { promisify } from 'node:util';
import { errors } from '../../core/errors.ts';
import {
  AT_REMOVEDIR,
  errnoOf,
  ioctl,
  openat2,
  RESOLVE_BENEATH,
  RESOLVE_NO_MAGICLINKS,
  RESOLVE_NO_SYMLINKS,
  unlinkat,
} from '../syscalls.ts';
import { folderPath, ioRead, ioWrite, searchTree, subvolumeId, withFolder } from './btrfs-ioctl.ts';

const closeFd = promisify(close);

const SNAP_CREATE_V2 = ioWrite(23, 4096);
const SUBVOL_GETFLAGS = ioRead(25, 8);
const SUBVOL_SETFLAGS = ioWrite(26, 8);
const SNAP_DESTROY_V2 = ioWrite(63, 4096);
const SUBVOL_RDONLY = 2n;
const SPEC_BY_ID = 16n;
const ROOT_TREE = 1n;
const ROOT_REF_KEY = 156;
const NAME = 56;

/** A subvolume inside another, made by a guest or by a user of the host. */
export interface NestedSubvolume {
  /** Below the outermost subvolume, without a slash at its start. */
  readonly path: string;
  readonly readOnly: boolean;
}

/** Subvolumes at any depth inside the one at `path`, parents first. */
export function nestedSubvolumes(path: string): Promise<NestedSubvolume[]> {
  return withFolder(path, async (fd) => {
    const found: NestedSubvolume[] = [];
    const visit = async (folder: number, prefix: string) => {
      for (const child of await childrenOf(folder)) {
        await withChild(folder, child, async (inner) => {
          found.push({ path: prefix + child.path, readOnly: await isReadOnly(inner) });
          await visit(inner, `${prefix}${child.path}/`);
        });
      }
    };
    await visit(fd, '');
    return found;
  });
}

/** A subvolume that shares all of `source` but not the subvolumes inside; made in one step. */
export async function snapshotSubvolume(
  source: string,
  target: string,
  options: { readonly readOnly: boolean },
): Promise<void> {
  await withFolder(source, (from) =>
    withFolder(dirname(target), (into) => snapshotAt(from, into, { name: basename(target), ...options })),
  );
}

/**
 * A writable subvolume that shares all of `source`, with the subvolumes inside; those keep whether they are read-only.
 * Nobody else may change the target meanwhile; when it fails, the caller deletes what was made.
 * @throws conflict when inner subvolumes of the source are moved meanwhile.
 */
export async function snapshotTree(source: string, target: string): Promise<void> {
  await withFolder(source, (from) =>
    withFolder(dirname(target), (into) => snapshotInto(from, into, { name: basename(target), readOnly: false })),
  );
}

/**
 * A writable copy of one subvolume at `path` inside another, which nobody else may change meanwhile. What an empty
 * folder there was goes. @throws bad-request when `path` leaves the subvolume or has no folder to lie in.
 */
export async function snapshotInside(source: string, outer: string, path: string): Promise<void> {
  const name = basename(path);
  if (name !== path.split('/').at(-1) || ['', '.', '..'].includes(name))
    throw errors.badRequest(`Invalid path of a subvolume "${path}"`);
  await withFolder(source, (from) =>
    withFolder(outer, async (into) => {
      try {
        await withInside(into, dirname(path), async (folder) => {
          await removeEmpty(folder, name);
          await snapshotAt(from, folder, { name, readOnly: false });
        });
      } catch (error) {
        throw errors.badRequest(`There is no place for the subvolume "${path}"`, error);
      }
    }),
  );
}

/** With the subvolumes inside. @throws ENOENT. */
export async function deleteSubvolume(path: string): Promise<void> {
  await withFolder(path, async (fd) => {
    const id = await subvolumeId(fd);
    await unlock(fd);
    for (const inner of await descendants(fd, id)) await destroy(fd, inner);
  });
  await withFolder(dirname(path), async (fd) => {
    const id = await withFolder(path, subvolumeId);
    await destroy(fd, id);
  });
}

/** Deletes the subvolumes below a folder of btrfs that nobody else may change, whether it is one itself or not. */
export async function deleteSubvolumesBelow(folder: string): Promise<void> {
  const { ino } = await stat(folder);
  await withFolder(folder, async (fd) => {
    const own = await folderPath(fd, await subvolumeId(fd), BigInt(ino));
    for (const child of await childrenOf(fd)) {
      if (!child.path.startsWith(own)) continue;
      await withInside(fd, child.path.slice(own.length), unlock);
      for (const id of [...(await descendants(fd, child.id)), child.id]) await destroy(fd, id);
    }
  });
}

export function setReadOnly(path: string, readOnly: boolean): Promise<void> {
  return withFolder(path, (fd) => changeReadOnly(fd, readOnly));
}

interface Child {
  readonly id: bigint;
  /** Below the containing subvolume. */
  readonly path: string;
}

async function childrenOf(fd: number): Promise<Child[]> {
  const id = await subvolumeId(fd);
  const children: Child[] = [];
  for (const { offset, data } of await searchTree(fd, { tree: ROOT_TREE, object: id, type: ROOT_REF_KEY })) {
    const length = data.readUInt16LE(16);
    const folder = await folderPath(fd, id, data.readBigUInt64LE(0));
    children.push({ id: offset, path: folder + data.toString('utf8', 18, 18 + length) });
  }
  return children;
}

/** Ids of all subvolumes inside subvolume `id`, deepest first. */
export async function descendants(fd: number, id: bigint): Promise<bigint[]> {
  const children = await searchTree(fd, { tree: ROOT_TREE, object: id, type: ROOT_REF_KEY });
  const found: bigint[] = [];
  for (const { offset } of children) found.push(...(await descendants(fd, offset)), offset);
  return found;
}

interface Snapshot {
  readonly name: string;
  readonly readOnly: boolean;
}

async function snapshotAt(from: number, into: number, { name, readOnly }: Snapshot): Promise<void> {
  const buffer = Buffer.alloc(4096);
  buffer.writeBigInt64LE(BigInt(from), 0);
  if (readOnly) buffer.writeBigUInt64LE(SUBVOL_RDONLY, 16);
  buffer.write(name, NAME);
  await ioctl(into, SNAP_CREATE_V2, buffer);
}

async function snapshotInto(from: number, into: number, { name, readOnly }: Snapshot): Promise<void> {
  const children = await childrenOf(from);
  if (children.length === 0) return snapshotAt(from, into, { name, readOnly });
  await snapshotAt(from, into, { name, readOnly: false });
  await withInside(into, name, async (made) => {
    for (const child of children) {
      await withChild(from, child, (inner) =>
        withInside(made, dirname(child.path), async (folder) => {
          const inside = { name: basename(child.path), readOnly: await isReadOnly(inner) };
          await removeEmpty(folder, inside.name);
          await snapshotInto(inner, folder, inside);
        }),
      );
    }
    if (readOnly) await changeReadOnly(made, true);
  });
}

/** The snapshot shows an empty folder where the inner subvolume was. */
async function removeEmpty(folder: number, name: string): Promise<void> {
  try {
    await unlinkat(folder, name, AT_REMOVEDIR);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw moved(name, error);
  }
}

async function withChild<T>(fd: number, child: Child, use: (fd: number) => Promise<T>): Promise<T> {
  return withInside(fd, child.path, async (inner) => {
    if ((await subvolumeId(inner)) !== child.id) throw moved(child.path);
    return use(inner);
  });
}

async function withInside<T>(fd: number, path: string, use: (fd: number) => Promise<T>): Promise<T> {
  let inner: number;
  try {
    inner = await openInside(fd, path);
  } catch (error) {
    throw moved(path, error);
  }
  try {
    return await use(inner);
  } finally {
    await closeFd(inner);
  }
}

/** A guest may put links anywhere at any time: none is followed. */
function openInside(fd: number, path: string): Promise<number> {
  return openat2(fd, path, {
    flags: constants.O_RDONLY | constants.O_DIRECTORY,
    resolve: RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
  });
}

function moved(path: string, cause?: unknown): Error {
  return errors.conflict(`The subvolume "${path}" was moved meanwhile; try again`, cause);
}

/** Nothing inside a read-only subvolume can be deleted. */
async function unlock(fd: number): Promise<void> {
  const children = await childrenOf(fd);
  if (children.length === 0) return;
  await changeReadOnly(fd, false);
  for (const child of children) await withChild(fd, child, unlock);
}

async function destroy(fd: number, id: bigint): Promise<void> {
  const buffer = Buffer.alloc(4096);
  buffer.writeBigUInt64LE(SPEC_BY_ID, 16);
  buffer.writeBigUInt64LE(id, NAME);
  await ioctl(fd, SNAP_DESTROY_V2, buffer);
}

async function isReadOnly(fd: number): Promise<boolean> {
  return ((await readFlags(fd)) & SUBVOL_RDONLY) !== 0n;
}

async function readFlags(fd: number): Promise<bigint> {
  const flags = Buffer.alloc(8);
  await ioctl(fd, SUBVOL_GETFLAGS, flags);
  return flags.readBigUInt64LE(0);
}

async function changeReadOnly(fd: number, readOnly: boolean): Promise<void> {
  const current = await readFlags(fd);
  const wanted = readOnly ? current | SUBVOL_RDONLY : current & ~SUBVOL_RDONLY;
  if (wanted === current) return;
  const flags = Buffer.alloc(8);
  flags.writeBigUInt64LE(wanted, 0);
  await ioctl(fd, SUBVOL_SETFLAGS, flags);
}
