import * as v from '../values/index.ts';
import { type ConfigKey, type ConfigOf, type ConfigTable, key } from './table.ts';

/** Storage drivers with tables of their own. */
export const storageDrivers = ['dir', 'btrfs', 'zfs', 'lvm', 'ceph', 'cephfs'] as const;
export type StorageDriverName = (typeof storageDrivers)[number];

const local = { scope: 'local' } as const;
const global = { scope: 'global' } as const;
const block = { condition: 'content type block, or a file system on a block device' } as const;

const cephCommon = <const P extends string>(prefix: P) => [
  key(`${prefix}.cluster_name` as const, v.anyText, 'Name of the Ceph cluster.', { ...global, default: 'ceph' }),
  key(`${prefix}.user.name` as const, v.anyText, 'Ceph user to work as.', { ...global, default: 'admin' }),
];

const poolKeys = {
  dir: [],
  btrfs: [
    key('btrfs.mount_options', v.singleLine, 'Mount options of a block device or loop file.', {
      ...local,
      default: 'user_subvol_rm_allowed',
    }),
    key('size', v.size, 'Size of the loop file; may grow.', {
      ...local,
      default: '20% of the free space, 5GiB to 30GiB',
    }),
  ],
  zfs: [
    key('size', v.size, 'Size of the loop file; may grow.', {
      ...local,
      default: '20% of the free space, 5GiB to 30GiB',
    }),
    key(
      'zfs.clone_copy',
      v.anyOf(v.oneOf('rebase'), v.bool),
      'Copy by clone; false copies in full, rebase starts from the image.',
      { ...global, default: 'true' },
    ),
    key('zfs.export', v.bool, 'Export the zpool when the server stops.', { ...global, default: 'true' }),
    key('zfs.pool_name', v.anyText, 'Name of the zpool or dataset.', local),
  ],
  lvm: [
    key('lvm.thinpool_metadata_size', v.size, 'Size of the thin pool metadata; 0 lets LVM choose.', {
      ...global,
      default: '0',
    }),
    key('lvm.thinpool_name', v.anyText, 'Thin pool to make volumes in.', { ...local, default: 'LXDThinPool' }),
    key('lvm.use_thinpool', v.bool, 'Make thin volumes.', { ...global, default: 'true' }),
    key('lvm.vg.force_reuse', v.bool, 'Take a volume group that is not empty.', { ...local, default: 'false' }),
    key('lvm.vg_name', v.anyText, 'Volume group to make or take.', local),
    key('size', v.size, 'Size of the loop file; may grow.', {
      ...local,
      default: '20% of the free space, 5GiB to 30GiB',
    }),
  ],
  ceph: [
    ...cephCommon('ceph').slice(0, 1),
    key('ceph.osd.data_pool_name', v.anyText, 'OSD pool for data, apart from metadata.', global),
    key('ceph.osd.force_reuse', v.bool, 'Take an OSD pool another server uses.', { ...global, default: 'false' }),
    key('ceph.osd.pg_num', v.integer, 'Placement groups of a new OSD pool.', { ...global, default: '32' }),
    key('ceph.osd.pool_name', v.anyText, 'OSD pool to make or take.', { ...global, default: 'name of the pool' }),
    key('ceph.rbd.clone_copy', v.bool, 'Copy by clone; false copies in full.', { ...global, default: 'true' }),
    key('ceph.rbd.du', v.bool, 'Ask rbd for the use of volumes, which can be slow.', { ...global, default: 'true' }),
    key('ceph.rbd.features', v.anyText, 'Features of new images, separated by commas.', {
      ...global,
      default: 'layering',
    }),
    ...cephCommon('ceph').slice(1),
    key('volatile.pool.pristine', v.bool, 'Whether the OSD pool was empty when taken.', { ...global, internal: true }),
  ],
  cephfs: [
    ...cephCommon('cephfs'),
    key('cephfs.fscache', v.bool, 'Cache on the local disk.', { ...global, default: 'false' }),
    key('cephfs.path', v.anyText, 'Folder of the CephFS to keep the pool in.', { ...global, default: '/' }),
    key('volatile.pool.pristine', v.bool, 'Whether the folder was empty when taken.', { ...global, internal: true }),
  ],
} satisfies Readonly<Record<StorageDriverName, readonly ConfigKey[]>>;

const commonPool = [
  key(
    'rsync.bwlimit',
    v.size,
    'Most that one transfer to another server sends each second, as rsync takes it: in KiB without a unit; 0 is no limit.',
    {
      ...global,
      live: true,
      default: '0',
    },
  ),
  key('rsync.compression', v.bool, 'Compress migration by rsync.', { ...global, live: true, default: 'true' }),
  key('source', v.anyText, 'Folder, block device, subvolume, dataset or loop file the pool lives on.', local),
  key('user.*', v.anyText, 'Free text.', { ...global, live: true }),
  key('volatile.initial_source', v.anyText, 'Source as given at creation.', { ...local, internal: true }),
];

const blockVolume = [
  key('block.filesystem', v.oneOf('btrfs', 'ext4', 'xfs'), 'File system on the block device.', {
    ...block,
    default: 'ext4',
  }),
  key('block.mount_options', v.mountOptions, 'Mount options of the file system.', { ...block, default: 'discard' }),
];

const volumeKeys = {
  dir: [
    key(
      'clone',
      v.oneOf('auto', 'overlay', 'reflink', 'copy'),
      'How a volume starts from its image or source: shared below, shared extents, or a full copy.',
      { default: 'auto' },
    ),
  ],
  btrfs: [],
  zfs: [
    key('zfs.blocksize', v.size, 'Record or block size, 512B to 16MiB, a power of two.', {}),
    key('zfs.remove_snapshots', v.bool, 'Delete later snapshots when an earlier one is restored.', {
      default: 'false',
    }),
    key('zfs.reserve_space', v.bool, 'Reserve the space of the size.', { default: 'false' }),
    key('zfs.use_refquota', v.bool, 'Leave snapshots out of the quota.', { default: 'false' }),
  ],
  lvm: [
    ...blockVolume,
    key('lvm.stripes', v.uint32, 'Stripes of the logical volume.', {}),
    key('lvm.stripes.size', v.size, 'Size of a stripe, at least 4096 bytes.', {}),
  ],
  ceph: blockVolume,
  cephfs: [],
} satisfies Readonly<Record<StorageDriverName, readonly ConfigKey[]>>;

const commonVolume = [
  key('security.shifted', v.bool, 'Let instances with different maps share the volume.', {
    live: true,
    default: 'false',
    condition: 'custom volume',
  }),
  key('security.unmapped', v.bool, 'Keep owners as they are on disk.', {
    live: true,
    default: 'false',
    condition: 'custom volume',
  }),
  key('size', v.size, 'Quota of the volume.', { live: true }),
  key('snapshots.expiry', v.expiry, 'Time after which snapshots are deleted.', {
    live: true,
    condition: 'custom volume',
  }),
  key('snapshots.pattern', v.anyText, 'Name of snapshots: a number for %d, the time for {{ creation_date }}.', {
    live: true,
    default: 'snap%d',
    condition: 'custom volume',
  }),
  key('snapshots.schedule', v.schedule, 'When to take snapshots: a cron expression, or aliases such as @daily.', {
    live: true,
    condition: 'custom volume',
  }),
];

const volumeOnly = [
  key('user.*', v.anyText, 'Free text.', { live: true }),
  key('volatile.idmap.last', v.anyText, 'Map the files of the volume have on disk.', { internal: true }),
  key('volatile.idmap.next', v.anyText, 'Map the volume gets when it is attached next.', { internal: true }),
];

type VolumeRow = (typeof commonVolume)[number] | (typeof volumeKeys)[StorageDriverName][number];
type PoolRow = (typeof commonPool)[number] | (typeof poolKeys)[StorageDriverName][number];

/** Config of a storage volume of any driver, with completion. */
export type StorageVolumeConfig = ConfigOf<VolumeRow | (typeof volumeOnly)[number]>;
/** Config of a storage pool of any driver, with completion. */
export type StoragePoolConfig = ConfigOf<PoolRow | { readonly key: `volume.${VolumeRow['key']}` }>;

/** Config of a storage pool. The keys of its volumes are there too, as defaults under `volume.`. */
export function storagePoolConfig(driver: StorageDriverName): ConfigTable {
  const defaults = [...commonVolume, ...volumeKeys[driver]].map((row) => ({
    ...row,
    key: `volume.${row.key}`,
    scope: 'global' as const,
    live: true as const,
  }));
  return {
    noun: `storage-pool-${driver}`,
    keys: [...commonPool, ...poolKeys[driver], ...defaults],
    unknown: (name) => `Invalid option ${v.quote(name)}`,
    invalid: (name, _value, problem) => `Invalid value for option ${v.quote(name)}: ${problem}`,
  };
}

/** Config of a storage volume; `name` of the context is the volume's. */
export function storageVolumeConfig(driver: StorageDriverName): ConfigTable {
  return {
    noun: `storage-volume-${driver}`,
    keys: [...commonVolume, ...volumeKeys[driver], ...volumeOnly],
    unknown: (name, _value, context) =>
      `Invalid option for volume ${v.quote(context.name ?? '')} option ${v.quote(name)}`,
    invalid: (name, _value, problem, context) =>
      `Invalid value for volume ${v.quote(context.name ?? '')} option ${v.quote(name)}: ${problem}`,
  };
}
