import { readFile, rm } from 'node:fs/promises';
import { CommandError, run } from '../run.ts';
import { clientArguments, CONNECT_TIMEOUT } from './ceph.ts';
import { type RbdPlace, unreachable } from './rbd.ts';

const WHOLE_COMMAND = 60_000;

/** Value of a key of an object's map; undefined when it is not there. `file`: a path for the value on its way. */
export async function readMapValue(
  place: RbdPlace,
  at: { readonly object: string; readonly key: string; readonly file: string },
): Promise<string | undefined> {
  const { object, key, file } = at;
  try {
    const { code, stdout, stderr } = await rados(place, ['getomapval', object, key, file], { ok: [0, 1] });
    if (code === 0) return await readFile(file, 'utf8');
    if (!/No such (?:key|file)/.test(stdout + stderr))
      throw unreachable(new CommandError('rados', ['getomapval'], { code, stderr }), place);
    return undefined;
  } finally {
    await rm(file, { force: true });
  }
}

/** Sets a key of an object's map, in one step; the object is made with its first. */
export async function writeMapValue(place: RbdPlace, object: string, key: string, value: string): Promise<void> {
  await rados(place, ['setomapval', object, key], { input: value });
}

/** Absent = no effect. */
export async function dropMapKey(place: RbdPlace, object: string, key: string): Promise<void> {
  await removed(place, ['rmomapkey', object, key]);
}

/** Absent = no effect. */
export async function removeObject(place: RbdPlace, object: string): Promise<void> {
  await removed(place, ['rm', object]);
}

async function removed(place: RbdPlace, args: readonly string[]): Promise<void> {
  const { code, stderr } = await rados(place, args, { ok: [0, 1] });
  if (code !== 0 && !stderr.includes('No such file or directory'))
    throw unreachable(new CommandError('rados', args, { code, stderr }), place);
}

async function rados(
  place: RbdPlace,
  args: readonly string[],
  options: { readonly input?: string; readonly ok?: readonly number[] } = {},
) {
  const patience = [`--rados_mon_op_timeout=${CONNECT_TIMEOUT}`, `--rados_osd_op_timeout=${CONNECT_TIMEOUT}`];
  try {
    return await run('rados', [...clientArguments(place), ...patience, '--pool', place.pool, ...args], {
      timeout: WHOLE_COMMAND,
      ...options,
    });
  } catch (error) {
    throw unreachable(error, place);
  }
}
