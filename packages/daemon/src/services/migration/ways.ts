import type { StoragePool, VolumeRef } from '../../drivers/storage/contract.ts';
import type { FsType, WireSnapshot } from './wire/messages.ts';
import type { TransferType } from './wire/negotiate.ts';

/** The features of btrfs streams this side knows: a description goes first, nested subvolumes have their own streams. */
const BTRFS_FEATURES = ['migration_header', 'header_subvolumes'];

/** It is the format of a storage driver. */
export function isNative(fs: FsType): boolean {
  return fs === 'btrfs' || fs === 'zfs' || fs === 'rbd';
}

/** Names of offered snapshots that are here with the same content; `identities`: of the snapshots here, of the driver's. */
export function knownOf(
  offered: readonly WireSnapshot[],
  identities: ReadonlyMap<string, readonly string[]> | undefined,
): string[] {
  return offered.flatMap((one) => {
    const here = identities?.get(one.name) ?? [];
    return one.identities?.some((identity) => here.includes(identity)) === true ? [one.name] : [];
  });
}

/** Every server can take this for such content. */
export function fallbackOf({ contentType }: Pick<VolumeRef, 'contentType'>): FsType {
  return contentType === 'filesystem' ? 'rsync' : 'block-and-rsync';
}

/** Ways a volume of the pool can travel, the best first. */
export function waysOf(
  pool: Pick<StoragePool, 'spec' | 'transfer'>,
  volume: VolumeRef,
  options: {
    /** Also in the pool's own format. */
    readonly native: boolean;
    /** A file system that the other server made may be given to this host's kernel. */
    readonly trusted: boolean;
  },
): TransferType[] {
  const compress = pool.spec.config['rsync.compression'] === 'false' ? [] : ['compress'];
  const plain: TransferType = {
    fs: fallbackOf(volume),
    features: ['xattrs', 'delete', ...compress, 'bidirectional', 'hardlinks', 'acls'],
  };
  if (!options.native) return [plain];
  const files = volume.contentType === 'filesystem';
  const format = pool.transfer?.format;
  if (format === 'btrfs' && files) return [{ fs: 'btrfs', features: BTRFS_FEATURES }, plain];
  // LXD sends the disk of a virtual machine after a file system of its config, which has none here.
  const fits = volume.type !== 'virtual-machine' && (!files || options.trusted);
  return format === 'rbd' && fits ? [{ fs: 'rbd', features: [] }, plain] : [plain];
}
