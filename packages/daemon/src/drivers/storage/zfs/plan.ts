import { parseSize } from '@keelson/api';
import { errors } from '../../../core/errors.ts';
import type { ZfsCommand } from '../../../host/tools/zfs.ts';
import { deletedName, isInternal } from './names.ts';

type Config = Readonly<Record<string, string>>;

export interface Dataset {
  readonly name: string;
  /** Snapshot it is a clone of; undefined when it is none. */
  readonly origin: string | undefined;
}

/** Arguments whose output `parseDatasets` reads: every file system and volume below `root`, parents first. */
export function listDatasets(root: string): ZfsCommand {
  return ['zfs', 'list', '-H', '-r', '-t', 'filesystem,volume', '-o', 'name,origin', root];
}

export function parseDatasets(text: string): Dataset[] {
  return lines(text).map((line) => {
    const [name = '', origin = '-'] = line.split('\t');
    return { name, origin: origin === '-' ? undefined : origin };
  });
}

/** Snapshots of one dataset as `dataset@name`, oldest first. */
export function listSnapshots(dataset: string): ZfsCommand {
  return ['zfs', 'list', '-H', '-d', '1', '-t', 'snapshot', '-s', 'creation', '-o', 'name', dataset];
}

/** Of all datasets at and below `root`. */
export function listAllSnapshots(root: string): ZfsCommand {
  return ['zfs', 'list', '-H', '-r', '-t', 'snapshot', '-o', 'name', root];
}

export function parseNames(text: string): string[] {
  return lines(text);
}

/** Exact values, one a line, in the order asked for. */
export function getProperties(dataset: string, names: readonly string[]): ZfsCommand {
  return ['zfs', 'get', '-H', '-p', '-o', 'property,value', names.join(','), dataset];
}

export function parseProperties(text: string): ReadonlyMap<string, string> {
  return new Map(
    lines(text).map((line) => {
      const [name = '', value = ''] = line.split('\t');
      return [name, value] as const;
    }),
  );
}

/** An empty file system; it is mounted by hand, never by ZFS. */
export function createFileSystem(dataset: string, config: Config): ZfsCommand {
  const blocks = blockSize(config);
  return ['zfs', 'create', '-o', 'mountpoint=legacy', ...option('recordsize', blocks), dataset];
}

/** An empty volume that takes space as it is written, unless its space is reserved. */
export function createZvol(dataset: string, size: number, config: Config): ZfsCommand {
  const blocks = blockSize(config);
  const sparse = isTrue(config['zfs.reserve_space']) ? [] : ['-s'];
  return [
    'zfs',
    'create',
    ...sparse,
    ...(blocks === undefined ? [] : ['-b', String(blocks)]),
    ...['-o', 'volmode=dev', '-V', String(roundUp(size, blocks ?? ZVOL_BLOCK)), dataset],
  ];
}

export function snapshot(name: string): ZfsCommand {
  return ['zfs', 'snapshot', name];
}

export function clone(origin: string, target: string, kind: 'file system' | 'zvol'): ZfsCommand {
  return ['zfs', 'clone', '-o', kind === 'zvol' ? 'volmode=dev' : 'mountpoint=legacy', origin, target];
}

export function rename(from: string, to: string): ZfsCommand {
  return ['zfs', 'rename', from, to];
}

export function destroy(name: string): ZfsCommand {
  return name.includes('@') ? ['zfs', 'destroy', name] : ['zfs', 'destroy', '-r', name];
}

export function rollback(name: string): ZfsCommand {
  return ['zfs', 'rollback', '-r', name];
}

/** `parent`: a snapshot that the receiver has, of the same dataset or the one it was cloned from. */
export function send(name: string, parent?: string): ZfsCommand {
  return ['zfs', 'send', ...(parent === undefined ? [] : ['-i', parent]), name];
}

/** Into a new dataset, or with `force` over one whose newest common snapshot is the stream's parent. */
export function receive(
  target: string,
  options: { readonly force?: boolean; readonly origin?: string } = {},
): ZfsCommand {
  const origin = options.origin === undefined ? [] : ['-o', `origin=${options.origin}`];
  return ['zfs', 'receive', '-u', ...(options.force === true ? ['-F'] : []), ...origin, target];
}

/**
 * Limits a file system to `size` bytes; undefined takes the limit away. Snapshots count unless `zfs.use_refquota`. One
 * property at a time: what is reserved may never be more than the limit.
 */
export function setQuota(dataset: string, size: number | undefined, config: Config): readonly ZfsCommand[] {
  const apart = isTrue(config['zfs.use_refquota']);
  const [limit, other] = apart ? ['refquota', 'quota'] : ['quota', 'refquota'];
  const hold = apart ? 'refreservation' : 'reservation';
  const value = size === undefined ? 'none' : String(size);
  const steps = ['reservation=none', 'refreservation=none', `${limit}=${value}`, `${other}=none`];
  if (size !== undefined && isTrue(config['zfs.reserve_space'])) steps.push(`${hold}=${value}`);
  return steps.map((step) => ['zfs', 'set', step, dataset]);
}

export function setVolumeSize(dataset: string, size: number): ZfsCommand {
  return ['zfs', 'set', `volsize=${roundUp(size, ZVOL_BLOCK)}`, dataset];
}

export interface Tree {
  readonly datasets: readonly Dataset[];
  /** Of the dataset that goes, and of those it was cloned from, as far as they are deleted. */
  readonly snapshots: ReadonlyMap<string, readonly string[]>;
}

/**
 * What deletes a dataset: where something else is a clone of it, it moves to `deleted/`, without the snapshots nobody
 * needs; else it goes, and with it the deleted ones that only it kept. Pure.
 */
export function deletionPlan(
  tree: Tree,
  target: string,
  place: { readonly root: string; readonly id: string },
): ZfsCommand[] {
  const alive = new Map(tree.datasets.map((dataset) => [dataset.name, dataset]));
  const clonesOf = (name: string): Dataset[] =>
    [...alive.values()].filter(({ origin }) => origin === name || origin?.startsWith(`${name}@`) === true);
  const found = alive.get(target);
  if (found === undefined) return [];
  if (clonesOf(target).length > 0) {
    const idle = (tree.snapshots.get(target) ?? []).filter((name) => clonesOf(name).length === 0);
    const isDeleted = target.startsWith(`${place.root}/deleted/`);
    return [...idle.map(destroy), ...(isDeleted ? [] : [rename(target, deletedName(place.root, target, place.id))])];
  }
  const commands: ZfsCommand[] = [];
  let current: Dataset | undefined = found;
  while (current !== undefined) {
    commands.push(destroy(current.name));
    alive.delete(current.name);
    const { origin } = current;
    if (origin === undefined || clonesOf(origin).length > 0) break;
    const parent: string = origin.slice(0, origin.indexOf('@'));
    const goes: boolean = parent.startsWith(`${place.root}/deleted/`) && clonesOf(parent).length === 0;
    if (!goes && isInternal(origin)) commands.push(destroy(origin));
    current = goes ? alive.get(parent) : undefined;
  }
  return commands;
}

/** Datasets in an order in which each can be destroyed: clones before what they stand on, children before parents. Pure. */
export function destroyOrder(datasets: readonly Dataset[]): string[] {
  const rest = new Map(datasets.map((dataset) => [dataset.name, dataset]));
  const order: string[] = [];
  while (rest.size > 0) {
    const blocked = (name: string): boolean =>
      [...rest.values()].some(
        (other) =>
          other.name.startsWith(`${name}/`) || (other.name !== name && other.origin?.startsWith(`${name}@`) === true),
      );
    const free = [...rest.keys()].filter((name) => !blocked(name));
    if (free.length === 0) throw new Error('datasets stand on each other in a circle');
    for (const name of free) {
      order.push(name);
      rest.delete(name);
    }
  }
  return order;
}

/** Snapshots that must go before `wanted` can be restored. @throws bad-request with LXD's text when they may not. */
export function restorePlan(
  snapshots: readonly string[],
  wanted: string,
  options: { readonly name: string; readonly removeLater: boolean },
): readonly string[] {
  const later = snapshots.slice(snapshots.indexOf(wanted) + 1);
  if (later.some(isInternal))
    throw errors.badRequest(
      `Snapshot "${options.name}" cannot be restored due to subsequent internal snapshot(s) (from a copy)`,
    );
  if (later.length > 0 && !options.removeLater)
    throw errors.badRequest(
      `Snapshot "${options.name}" cannot be restored due to subsequent snapshot(s). Set zfs.remove_snapshots to override`,
    );
  return later;
}

export function isTrue(text: string | undefined): boolean {
  return ['true', '1', 'yes', 'on'].includes((text ?? '').toLowerCase());
}

/** `zfs.clone_copy`: copies are clones, full, or start from the source's image. */
export function copyMode(config: Config): 'clone' | 'full' | 'rebase' {
  const text = (config['zfs.clone_copy'] ?? 'true').toLowerCase();
  return text === 'rebase' ? 'rebase' : isTrue(text) ? 'clone' : 'full';
}

export const DEFAULT_VOLUME_SIZE = 10 * 1024 ** 3;

/** Bytes a block volume gets from its config; LXD's default without one. */
export function sizeOf(config: Config): number {
  const size = bytesIn(config, 'size');
  return size === undefined || size === 0 ? DEFAULT_VOLUME_SIZE : size;
}

/** @throws bad-request naming the key. */
export function bytesIn(config: Config, key: string): number | undefined {
  const text = config[key] ?? '';
  if (text === '') return undefined;
  const parsed = parseSize(text);
  if (!parsed.ok) throw errors.badRequest(`Invalid value for option "${key}": ${parsed.message}`);
  return parsed.value;
}

/** Volumes have whole blocks; every block size up to this one divides it. */
const ZVOL_BLOCK = 16 * 1024;

/** @throws bad-request for what is no power of two between 512 bytes and 16 MiB. */
export function blockSize(config: Config): number | undefined {
  const size = bytesIn(config, 'zfs.blocksize');
  if (size === undefined) return undefined;
  if (size < 512 || size > 16 * 1024 ** 2 || Math.log2(size) % 1 !== 0)
    throw errors.badRequest(
      'Invalid value for option "zfs.blocksize": Value should be between 512 and 16777216, and be power of 2',
    );
  return size;
}

function option(name: string, value: number | undefined): string[] {
  return value === undefined ? [] : ['-o', `${name}=${value}`];
}

function roundUp(size: number, unit: number): number {
  return Math.max(unit, Math.ceil(size / unit) * unit);
}

function lines(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}
