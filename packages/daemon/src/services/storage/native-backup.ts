import type { Readable } from 'node:stream';
import { stringify } from 'yaml';
import { errors } from '../../core/errors.ts';
import type { ProgressOptions, StoragePool, VolumeRef } from '../../drivers/storage/contract.ts';

/** One state of a volume in its driver's own format; the last has no snapshot. */
export interface NativeState {
  readonly snapshot?: { readonly name: string };
  open(): Promise<Readable>;
}

/** A volume on its way out in its driver's own format. */
export interface NativeOutput extends AsyncDisposable {
  /** Text of optimized_header.yaml. */
  readonly header: string;
  /** Oldest first; the last is the volume itself. */
  readonly parts: readonly { readonly snapshot: string | undefined; open(): Promise<Readable> }[];
}

/** Undefined when the pool has no format of its own. Each part holds what changed since the one before it. */
export async function sendNative(
  pool: StoragePool,
  volume: VolumeRef,
  options: { readonly snapshots: readonly string[]; readonly running: boolean },
): Promise<NativeOutput | undefined> {
  if (pool.transfer === undefined) return undefined;
  const { snapshots, running } = options;
  const send = await pool.transfer.send(volume, { running });
  const states = [...snapshots, undefined];
  return {
    header: stringify({
      subvolumes: states.map((name) => ({
        path: '/',
        snapshot: name ?? '',
        readonly: name !== undefined,
        uuid: '',
      })),
    }),
    parts: states.map((snapshot, at) => ({ snapshot, open: () => send.open(snapshot, snapshots[at - 1]) })),
    [Symbol.asyncDispose]: () => send[Symbol.asyncDispose](),
  };
}

/**
 * A volume from the parts of a backup in its driver's own format, oldest first; leaves nothing when it fails.
 * @throws bad-request with LXD's text when the pool's driver is another.
 */
export async function receiveNative(
  pool: StoragePool,
  target: VolumeRef,
  parts: readonly NativeState[],
  options: ProgressOptions & { readonly backend: string; readonly driver: string },
): Promise<void> {
  const { backend, driver, ...progress } = options;
  if (backend !== driver)
    throw errors.badRequest(
      `Optimized backup storage driver "${backend}" differs from the target storage pool driver "${driver}"`,
    );
  const transfer = pool.transfer;
  if (transfer === undefined) throw errors.badRequest(`Storage driver "${driver}" cannot read optimized backups here`);
  await using receive = await transfer.receive(target, { refresh: false });
  for (const part of parts) await receive.accept(part.snapshot?.name, await part.open(), progress);
  await receive.commit();
}
