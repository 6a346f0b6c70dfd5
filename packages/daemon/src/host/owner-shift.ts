import { constants } from 'node:fs';
import { chmod, type FileHandle, lchown, lstat, open, readdir } from 'node:fs/promises';
import { getXattr, listXattrs, setXattr } from './syscalls.ts';

/** Ids `from … from+size-1` become `to … to+size-1`; others stay. */
export interface OwnerShift {
  readonly from: number;
  readonly to: number;
  readonly size: number;
}

const CAPABILITY = 'security.capability';
const ACLS = ['system.posix_acl_access', 'system.posix_acl_default'];

/**
 * Gives every file at and below the folder `root` other owners: user, group, those named in its ACLs, and the user in
 * whose namespace its capabilities hold. Nobody else may change the tree meanwhile. When it is cut off, part of the files
 * have the new owners: the caller goes back to what was before.
 */
export async function shiftOwners(root: string, shift: OwnerShift): Promise<void> {
  const walk = new Walk(shift);
  await walk.entry(Buffer.from(root));
}

class Walk {
  readonly #shift: OwnerShift;
  /** Files with several names that were met. */
  readonly #linked = new Set<bigint>();

  constructor(shift: OwnerShift) {
    this.#shift = shift;
  }

  async entry(path: Buffer): Promise<void> {
    const found = await lstat(path, { bigint: true });
    if (!found.isDirectory() && found.nlink > 1n) {
      if (this.#linked.has(found.ino)) return;
      this.#linked.add(found.ino);
    }
    const isLink = found.isSymbolicLink();
    const names = isLink ? [] : await listXattrs(path);
    // A change of the owner takes capabilities and the set-user-id bit away.
    const capability = names.includes(CAPABILITY) ? await getXattr(path, CAPABILITY) : undefined;
    await lchown(path, shiftedId(Number(found.uid), this.#shift), shiftedId(Number(found.gid), this.#shift));
    if (!isLink && (found.mode & 0o7000n) !== 0n) await chmod(path, Number(found.mode & 0o7777n));
    if (capability !== undefined) await setXattr(path, CAPABILITY, shiftedCapability(capability, this.#shift));
    for (const name of ACLS.filter((acl) => names.includes(acl)))
      await setXattr(path, name, shiftedAcl(await getXattr(path, name), this.#shift));
    if (found.isDirectory()) await this.#below(path);
  }

  /** Through the folder's descriptor: paths in it may be longer than the kernel takes in one. */
  async #below(path: Buffer): Promise<void> {
    const folder: FileHandle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    try {
      const inside = `/proc/self/fd/${folder.fd}`;
      for (const name of await readdir(inside, { encoding: 'buffer' }))
        await this.entry(Buffer.concat([Buffer.from(`${inside}/`), name]));
    } finally {
      await folder.close();
    }
  }
}

export function shiftedId(id: number, { from, to, size }: OwnerShift): number {
  return id >= from && id < from + size ? id - from + to : id;
}

const ACL_ENTRY = 8;
const NAMED = [0x02, 0x08];

/** The value of a POSIX ACL's attribute: a version, then entries of tag, permissions and id. Pure. */
export function shiftedAcl(value: Buffer, shift: OwnerShift): Buffer {
  const result = Buffer.from(value);
  for (let at = 4; at + ACL_ENTRY <= result.length; at += ACL_ENTRY) {
    if (NAMED.includes(result.readUInt16LE(at)))
      result.writeUInt32LE(shiftedId(result.readUInt32LE(at + 4), shift), at + 4);
  }
  return result;
}

const REVISION = 0xff00_0000;
const REVISION_2 = 0x0200_0000;
const REVISION_3 = 0x0300_0000;
/** Bytes before the id of the namespace's root. */
const CAPS = 20;

/** The value of a file's capabilities; they hold in the namespace whose root is named, without one in the host's. Pure. */
export function shiftedCapability(value: Buffer, shift: OwnerShift): Buffer {
  if (value.length < CAPS) return value;
  const magic = value.readUInt32LE(0);
  const revision = (magic & REVISION) >>> 0;
  if (revision !== REVISION_2 && revision !== REVISION_3) return value;
  const root = revision === REVISION_3 && value.length >= CAPS + 4 ? value.readUInt32LE(CAPS) : 0;
  const shifted = shiftedId(root, shift);
  const result = Buffer.alloc(shifted === 0 ? CAPS : CAPS + 4);
  value.copy(result, 0, 0, CAPS);
  result.writeUInt32LE(((magic & ~REVISION) | (shifted === 0 ? REVISION_2 : REVISION_3)) >>> 0, 0);
  if (shifted !== 0) result.writeUInt32LE(shifted, CAPS);
  return result;
}
