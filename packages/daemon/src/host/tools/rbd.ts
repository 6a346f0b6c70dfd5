import { errors } from '../../core/errors.ts';
import { COMMAND_ENVIRONMENT, CommandError, run } from '../run.ts';
import { type CephAccess, clientArguments, CONNECT_TIMEOUT } from './ceph.ts';

/** One OSD pool, and whom to be in it. */
export interface RbdPlace extends CephAccess {
  readonly pool: string;
}

export interface RbdImage {
  /** Stays when the image is renamed. */
  readonly id: string;
  readonly name: string;
  readonly size: number;
  /** What it is a clone of; `id`: of that image. */
  readonly parent: { readonly id: string; readonly image: string; readonly snapshot: string } | undefined;
}

export interface RbdSnapshot {
  readonly name: string;
  readonly protected: boolean;
}

export interface RbdOptions {
  readonly signal?: AbortSignal | undefined;
  /** It moves data and takes as long as it takes; else a cluster that does not answer ends it. */
  readonly long?: boolean;
  readonly ok?: readonly number[];
}

const DAY = 24 * 3_600_000;
const WHOLE_COMMAND = 60_000;

const [ENOENT, EEXIST, EBUSY, ETIMEDOUT] = [2, 17, 16, 110];

/** Arguments of one command in the pool. */
export function rbdArguments(place: RbdPlace, args: readonly string[], long = false): string[] {
  const patience = long
    ? []
    : [`--rados_mon_op_timeout=${CONNECT_TIMEOUT}`, `--rados_osd_op_timeout=${CONNECT_TIMEOUT}`];
  return [...clientArguments(place), ...patience, '--pool', place.pool, ...args];
}

/** @throws unavailable when the cluster does not answer, else CommandError. */
export async function rbd(place: RbdPlace, args: readonly string[], options: RbdOptions = {}): Promise<string> {
  const { signal, long = false, ok } = options;
  try {
    const { stdout } = await run('rbd', rbdArguments(place, args, long), {
      env: COMMAND_ENVIRONMENT, // mappings outlive this process, and an image waits for whoever worked on it
      timeout: long ? DAY : WHOLE_COMMAND,
      ...(signal === undefined ? {} : { signal }),
      ...(ok === undefined ? {} : { ok }),
    });
    return stdout;
  } catch (error) {
    throw unreachable(error, place);
  }
}

/** The same error, or unavailable when it says that the cluster did not answer. */
export function unreachable(error: unknown, { conf, user }: CephAccess): unknown {
  if (!(error instanceof CommandError)) return error;
  if (/no keyring found|unable to find a keyring|RADOS object not found/.test(error.stderr))
    return errors.unavailable(`There is no keyring of the user "${user}" for the Ceph cluster of "${conf}"`, error);
  if (/Permission denied|RADOS permission/.test(error.stderr))
    return errors.unavailable(`The Ceph cluster of "${conf}" refuses the user "${user}"`, error);
  if (error.code === ETIMEDOUT || /timed out|failed to fetch mon config|couldn't connect/.test(error.stderr))
    return errors.unavailable(`The Ceph cluster of "${conf}" does not answer`, error);
  return error;
}

/** Names of all images. */
export async function listImages(place: RbdPlace): Promise<string[]> {
  return parse(await rbd(place, ['ls', '--format', 'json']));
}

/** Undefined when there is none. */
export function findImage(place: RbdPlace, image: string): Promise<RbdImage | undefined> {
  return imageAt(place, ['--image', image]);
}

/** Undefined when there is none any more. */
export function findImageById(place: RbdPlace, id: string): Promise<RbdImage | undefined> {
  return imageAt(place, ['--image-id', id]);
}

async function imageAt(place: RbdPlace, where: readonly string[]): Promise<RbdImage | undefined> {
  const found = await ifThere(rbd(place, ['info', '--format', 'json', ...where]));
  if (found === undefined) return undefined;
  const { id, name, size, parent }: RbdImage = parse(found);
  return { id, name, size, parent };
}

/** Oldest first; undefined when the image is not there. */
export async function listSnapshots(place: RbdPlace, image: string): Promise<readonly RbdSnapshot[] | undefined> {
  const found = await ifThere(rbd(place, ['snap', 'ls', '--format', 'json', '--image', image]));
  if (found === undefined) return undefined;
  const rows: { name: string; protected: string }[] = parse(found);
  return rows.map((row) => ({ name: row.name, protected: row.protected === 'true' }));
}

/** Names of the images that are clones of the snapshot. */
export async function childrenOf(place: RbdPlace, image: string, snapshot: string): Promise<string[]> {
  const text = await rbd(place, ['children', '--format', 'json', '--image', image, '--snap', snapshot]);
  const rows: { image: string }[] = parse(text);
  return rows.map((row) => row.image);
}

/** Bytes the image's objects take, without those of its snapshots and parents; slow for large images. */
export async function usedBytes(place: RbdPlace, image: string): Promise<number | undefined> {
  const found = await ifThere(rbd(place, ['du', '--format', 'json', '--image', image], { long: true }));
  if (found === undefined) return undefined;
  const { images }: { images: { name: string; snapshot?: string; used_size: number }[] } = parse(found);
  return images.find((row) => row.snapshot === undefined)?.used_size;
}

export function isMissing(error: unknown): boolean {
  return error instanceof CommandError && error.code === ENOENT;
}

export function isTaken(error: unknown): boolean {
  return error instanceof CommandError && error.code === EEXIST;
}

export function isBusy(error: unknown): boolean {
  return error instanceof CommandError && error.code === EBUSY;
}

async function ifThere(command: Promise<string>): Promise<string | undefined> {
  try {
    return await command;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** `rbd` prints JSON whose shape its version fixes. */
function parse<T>(text: string): T {
  return JSON.parse(text);
}
