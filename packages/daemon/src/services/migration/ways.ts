import type { StoragePool, VolumeRef } from '../../drivers/storage/contract.ts';
import type { FsType } from './wire/messages.ts';
import type { TransferType } from './wire/negotiate.ts';

/** The features of btrfs streams this side knows: a description goes first, nested subvolumes have their own streams. */
const BTRFS_FEATURES = ['migration_header', 'header_subvolumes'];

/** Every server can take this for such content. */
export function fallbackOf({ contentType }: Pick<VolumeRef, 'contentType'>): FsType {
  return contentType === 'filesystem' ? 'rsync' : 'block-and-rsync';
}

/** Ways a volume of the pool can travel, the best first. `native`: also in the pool's own format. */
export function waysOf(pool: StoragePool, volume: VolumeRef, options: { readonly native: boolean }): TransferType[] {
  const compress = pool.spec.config['rsync.compression'] === 'false' ? [] : ['compress'];
  const plain: TransferType = {
    fs: fallbackOf(volume),
    features: ['xattrs', 'delete', ...compress, 'bidirectional', 'hardlinks', 'acls'],
  };
  const native = options.native && volume.contentType === 'filesystem' && pool.transfer?.format === 'btrfs';
  return native ? [{ fs: 'btrfs', features: BTRFS_FEATURES }, plain] : [plain];
}
