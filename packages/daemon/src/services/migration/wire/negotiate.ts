import { errors } from '../../../core/errors.ts';
import type { FsType, MigrationHeader } from './messages.ts';

/** A way to transport content, with the features one side has or both have. */
export interface TransferType {
  readonly fs: FsType;
  readonly features: readonly string[];
}

type Offer = Pick<MigrationHeader, 'fs' | 'rsync' | 'btrfs' | 'zfs'>;

/** What servers before the negotiation of features have. */
const OLD_RSYNC = ['xattrs', 'delete', 'compress'];

/** The header's part that names `types`: the preferred one first, features of the file by file fallback beside it. */
export function offerOf(types: readonly TransferType[]): Offer {
  const [preferred] = types;
  if (preferred === undefined) throw errors.internal('No way to transfer was offered');
  const plain = types.find(({ fs }) => fs === 'rsync' || fs === 'block-and-rsync');
  return {
    fs: preferred.fs,
    rsync: plain?.features,
    btrfs: preferred.fs === 'btrfs' ? preferred.features : undefined,
    zfs: preferred.fs === 'zfs' ? preferred.features : undefined,
  };
}

/**
 * The first of our types that the offer has, with the features both know. `fallback` is what every server can for this
 * content. @throws bad-request when nothing fits.
 */
export function chooseType(offer: Offer, fallback: FsType, ours: readonly TransferType[]): TransferType {
  const offered: readonly FsType[] = [offer.fs, fallback];
  for (const { fs, features } of ours) {
    if (!offered.includes(fs)) continue;
    const theirs = featuresOf(offer, fs);
    return { fs, features: features.filter((feature) => theirs.includes(feature)) };
  }
  const names = (types: readonly string[]): string => types.join(', ');
  throw errors.badRequest(
    `No matching migration types found: the other server offers ${names(offered)}, this one has ${names(ours.map(({ fs }) => fs))}`,
  );
}

function featuresOf(offer: Offer, fs: FsType): readonly string[] {
  if (fs === 'btrfs') return offer.btrfs ?? [];
  if (fs === 'zfs') return offer.zfs ?? [];
  if (fs !== 'rsync') return [];
  const features = offer.rsync ?? [];
  return features.includes('bidirectional') ? features : OLD_RSYNC;
}
