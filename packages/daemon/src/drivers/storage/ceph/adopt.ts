import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { blockFileSystem } from '../../../host/tools/block-fs.ts';
import { ceph } from '../../../host/tools/ceph.ts';
import { dropMapKey, readMapValue, removeObject, writeMapValue } from '../../../host/tools/rados.ts';
import { findImage, type RbdPlace, unreachable } from '../../../host/tools/rbd.ts';
import { onDemandRecovery } from '../common/on-demand-recovery.ts';
import { type NotePlace, NOTES_NAME } from '../common/volume-notes.ts';
import { volumeKey } from '../common/volume-names.ts';
import type { PoolRecovery, PoolSpec, StoragePool, VolumeRef } from '../contract.ts';
import { placeOf } from './config.ts';
import type { CephContext } from './context.ts';
import { volumesIn } from './found.ts';
import type { CephMounter } from './mounter.ts';
import { placeholder, userSnapshot } from './names.ts';

/** Config of a pool that is in an OSD pool already. @throws bad-request when that is not there, or holds none. */
export async function reopenedConfig(spec: PoolSpec, cephFolder: string): Promise<Record<string, string>> {
  const { config } = spec;
  const place = placeOf(spec, cephFolder);
  const { pool } = place;
  if ((config['source'] ?? pool) !== pool)
    throw errors.badRequest('Invalid value for option "source": it must match ceph.osd.pool_name');
  if (!(await pathExists(place.conf)))
    throw errors.unavailable(`The configuration "${place.conf}" of the Ceph cluster doesn't exist`);
  if (!(await ask<string[]>(place, ['osd', 'pool', 'ls'])).includes(pool))
    throw errors.badRequest(`OSD pool "${pool}" doesn't exist`);
  if ((await findImage(place, placeholder(pool))) === undefined)
    throw errors.badRequest(`OSD pool "${pool}" holds no storage pool: it has no image "${placeholder(pool)}"`);
  const { pg_num: groups } = await ask<{ pg_num: number }>(place, ['osd', 'pool', 'get', pool, 'pg_num']);
  return {
    ...config,
    source: pool,
    'ceph.cluster_name': config['ceph.cluster_name'] ?? 'ceph',
    'ceph.osd.pg_num': String(groups),
    'ceph.osd.pool_name': pool,
    'ceph.user.name': config['ceph.user.name'] ?? 'admin',
    // Who made the OSD pool is not known: it stays when this pool goes.
    'volatile.pool.pristine': 'false',
  };
}

async function ask<T>(place: RbdPlace, args: readonly string[]): Promise<T> {
  try {
    return (await ceph(place, args)) as T;
  } catch (error) {
    throw unreachable(error, place);
  }
}

/** Notes as values of one RADOS object, which any server of the cluster may write at any time. */
class ObjectNotes implements NotePlace {
  readonly #pool: CephContext;

  constructor(pool: CephContext) {
    this.#pool = pool;
  }

  get(key: string): Promise<string | undefined> {
    const { place, staging, newId } = this.#pool;
    return readMapValue(place, { object: NOTES_NAME, key, file: join(staging, newId()) });
  }

  put(key: string, text: string): Promise<void> {
    return writeMapValue(this.#pool.place, NOTES_NAME, key, text);
  }

  drop(key: string): Promise<void> {
    return dropMapKey(this.#pool.place, NOTES_NAME, key);
  }
}

/** The pool goes, and the OSD pool it is in stays. */
export function removeNotes(place: RbdPlace): Promise<void> {
  return removeObject(place, NOTES_NAME);
}

export function recoveryOf(
  context: CephContext,
  pool: Pick<StoragePool, 'volumes' | 'roots' | 'snapshots' | 'quota'>,
  mounter: CephMounter,
): PoolRecovery {
  const { path, staging, newId, images, queue } = context;
  return onDemandRecovery({
    path,
    staging,
    newId,
    pool,
    notes: new ObjectNotes(context),
    mounter,
    alone: (volume, work) => queue.run({ exclusive: [volumeKey(volume)] }, work),
    found: () => volumesIn(images),
    snapshotsOf: async (volume) =>
      (await images.snapshots(mounter.image(volume))).flatMap(({ name }) => userSnapshot(name) ?? []),
    likeness: (volume) => likeness(context, mounter, volume),
  });
}

async function likeness(
  { images }: CephContext,
  mounter: CephMounter,
  volume: VolumeRef,
): Promise<Record<string, string>> {
  const image = mounter.image(volume);
  const found = await images.find(image);
  if (found === undefined) throw errors.notFound('Storage volume not found');
  const type = await mounter.withDevice(image, blockFileSystem);
  return { size: String(found.size), ...(type === undefined ? {} : { 'block.filesystem': type }) };
}
