import { parseSize } from '@keelson/api';
import { errors } from '../../../core/errors.ts';
import { type BlockFileSystem, isBlockFileSystem } from '../../../host/tools/block-fs.ts';
import type { LvmCommand } from '../../../host/tools/lvm.ts';
import { checkedName } from './names.ts';

type Config = Readonly<Record<string, string>>;

/** Where logical volumes are made. */
export interface Place {
  readonly group: string;
  /** Thin pool, or undefined for plain volumes. */
  readonly thinPool: string | undefined;
}

export const DEFAULT_VOLUME_SIZE = 10 * 1024 ** 3;

/** @throws bad-request for names that LVM does not take. */
export function placeOf(name: string, config: Config): Place {
  const group = checkedName(
    config['lvm.vg_name'] ?? name,
    config['lvm.vg_name'] === undefined ? 'name' : 'lvm.vg_name',
  );
  if (!usesThinPool(config)) return { group, thinPool: undefined };
  return { group, thinPool: checkedName(config['lvm.thinpool_name'] ?? DEFAULT_THIN_POOL, 'lvm.thinpool_name') };
}

export const DEFAULT_THIN_POOL = 'LXDThinPool';

export function usesThinPool(config: Config): boolean {
  return !['false', '0', 'no', 'off'].includes((config['lvm.use_thinpool'] ?? 'true').toLowerCase());
}

/** The whole of a group's free space, or `size` bytes of it, as a thin pool; stripes can only be given to it. */
export function createThinPool(place: Place, config: Config, size: number | undefined): LvmCommand {
  const metadata = bytesIn(config, 'lvm.thinpool_metadata_size');
  return [
    'lvcreate',
    ...[
      '--yes',
      '--wipesignatures',
      'y',
      ...TAG,
      '--thinpool',
      `${place.group}/${place.thinPool ?? DEFAULT_THIN_POOL}`,
    ],
    ...(metadata === undefined || metadata === 0 ? [] : ['--poolmetadatasize', `${metadata}b`]),
    ...(size === undefined ? ['--extents', '100%FREE'] : ['--size', `${roundUp(size)}b`]),
    ...stripes(config, 'volume.'),
  ];
}

/** A new volume, active. What an earlier one left on its blocks is wiped. */
export function createVolume(place: Place, name: string, size: number, config: Config): LvmCommand {
  const common = [
    'lvcreate',
    '--yes',
    '--wipesignatures',
    'y',
    '--name',
    name,
    ...TAG,
    ...SKIP,
    '--ignoreactivationskip',
  ];
  if (place.thinPool !== undefined)
    return [...common, '--thin', '--virtualsize', `${roundUp(size)}b`, `${place.group}/${place.thinPool}`];
  return [...common, '--size', `${roundUp(size)}b`, ...stripes(config, ''), place.group];
}

export interface SnapshotOptions {
  readonly from: string;
  readonly name: string;
  readonly readOnly: boolean;
  readonly activate?: boolean;
}

/** A snapshot; of a plain volume one that has room for every block of its origin. */
export function snapshotVolume(place: Place, options: SnapshotOptions): LvmCommand {
  return [
    'lvcreate',
    ...['--yes', '--snapshot', '--name', options.name, ...TAG, ...SKIP],
    ...(options.activate === true ? ['--ignoreactivationskip'] : []),
    ...(place.thinPool === undefined ? ['--extents', '100%ORIGIN'] : []),
    ...['--permission', options.readOnly ? 'r' : 'rw', `${place.group}/${options.from}`],
  ];
}

export function renameVolume({ group }: Place, from: string, to: string): LvmCommand {
  return ['lvrename', group, from, to];
}

export function addTag({ group }: Place, name: string, tag: string): LvmCommand {
  return ['lvchange', '--addtag', tag, `${group}/${name}`];
}

export function removeTag({ group }: Place, name: string, tag: string): LvmCommand {
  return ['lvchange', '--deltag', tag, `${group}/${name}`];
}

/** Renames of the thin pool and of the group, in this order. */
export function renamePlace(from: Place, to: Place): readonly LvmCommand[] {
  const pool = from.thinPool !== undefined && to.thinPool !== undefined && from.thinPool !== to.thinPool;
  return [
    ...(pool ? [['lvrename', from.group, from.thinPool ?? '', to.thinPool ?? '']] : []),
    ...(from.group === to.group ? [] : [['vgrename', from.group, to.group]]),
  ];
}

export function removeVolumes({ group }: Place, names: readonly string[]): LvmCommand {
  return ['lvremove', '--force', ...names.map((name) => `${group}/${name}`)];
}

/** LVM asks before it changes a plain snapshot, for its origin changes with it. */
export function activate({ group }: Place, name: string): LvmCommand {
  return ['lvchange', '--yes', '--activate', 'y', '--ignoreactivationskip', `${group}/${name}`];
}

export function deactivate({ group }: Place, name: string): LvmCommand {
  return ['lvchange', '--yes', '--activate', 'n', `${group}/${name}`];
}

export function resizeVolume({ group }: Place, name: string, size: number): LvmCommand {
  return ['lvresize', '--force', '--size', `${roundUp(size)}b`, `${group}/${name}`];
}

/** File of the active volume. */
export function devicePath({ group }: Place, name: string): string {
  return `/dev/${group}/${name}`;
}

/** Bytes a volume gets from its config; LXD's default without one. */
export function sizeOf(config: Config): number {
  const size = bytesIn(config, 'size');
  return size === undefined || size === 0 ? DEFAULT_VOLUME_SIZE : size;
}

const FILE_SYSTEM_TAG = 'keelson_fs.';

/** Tag that tells the file system of a volume without a look at its device. */
export function fileSystemTag(type: BlockFileSystem): string {
  return FILE_SYSTEM_TAG + type;
}

/** Undefined where nothing tells. */
export function taggedFileSystem(tags: readonly string[]): string | undefined {
  return tags.find((tag) => tag.startsWith(FILE_SYSTEM_TAG))?.slice(FILE_SYSTEM_TAG.length);
}

export function fileSystemOf(config: Config): BlockFileSystem {
  const type = config['block.filesystem'] ?? 'ext4';
  if (!isBlockFileSystem(type)) throw errors.badRequest(`Invalid value for option "block.filesystem": "${type}"`);
  return type;
}

export function mountOptionsOf(config: Config): string {
  return config['block.mount_options'] ?? 'discard';
}

/** What must be done first to give the volume `size` bytes. @throws bad-request when it cannot. */
export function resizePlan(volume: {
  readonly name: string;
  readonly current: number;
  readonly wanted: number;
  /** Undefined for a bare device. */
  readonly fileSystem: BlockFileSystem | undefined;
  readonly mounted: boolean;
}): 'nothing' | 'grow' | 'shrink' {
  const wanted = roundUp(volume.wanted);
  // LVM rounds up to whole extents: what differs by less than one is the same.
  if (wanted === volume.current || (wanted < volume.current && volume.current - wanted < EXTENT)) return 'nothing';
  if (wanted > volume.current) return 'grow';
  if (volume.fileSystem === undefined) throw errors.badRequest('Block volumes cannot be shrunk');
  if (volume.fileSystem !== 'ext4')
    throw errors.badRequest(
      `Cannot shrink volume "${volume.name}": its ${volume.fileSystem} file system cannot be shrunk`,
    );
  if (volume.mounted)
    throw errors.badRequest(`Cannot shrink volume "${volume.name}" while it is in use: stop what uses it first`);
  return 'shrink';
}

const EXTENT = 4 * 1024 ** 2;
/** Tells our volumes from others in a group that is shared. */
export const OWN_TAG = 'keelson';
const TAG = ['--addtag', OWN_TAG];
/** Not activated by itself when the host starts. */
const SKIP = ['--setactivationskip', 'y'];

function stripes(config: Config, prefix: string): string[] {
  const count = config[`${prefix}lvm.stripes`] ?? '';
  if (count === '') return [];
  const size = bytesIn(config, `${prefix}lvm.stripes.size`);
  return ['--stripes', count, ...(size === undefined ? [] : ['--stripesize', `${roundUp(size)}b`])];
}

/** LVM takes whole sectors only. */
function roundUp(size: number): number {
  return Math.max(512, Math.ceil(size / 512) * 512);
}

/** @throws bad-request naming the key. */
export function bytesIn(config: Config, key: string): number | undefined {
  const text = config[key] ?? '';
  if (text === '') return undefined;
  const parsed = parseSize(text);
  if (!parsed.ok) throw errors.badRequest(`Invalid value for option "${key}": ${parsed.message}`);
  return parsed.value;
}
