import { createReadStream } from 'node:fs';
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { join } from 'node:path';
import type { Ids } from '../../core/ids.ts';
import type { RootOptions, SnapshotRef, StoragePool, VolumeRef } from '../../drivers/storage/contract.ts';
import { DISK, TEMPORARY_PREFIX } from '../storage/root-transfer.ts';
import type { DataChannel } from './channels.ts';
import { type Agreement, writeAll } from './session.ts';
import { type Beside, ROOT, Stage, VOLUME } from './stage.ts';
import { isNative } from './ways.ts';
import type { TransferTools } from './tools.ts';

export interface SenderOptions {
  readonly tools: TransferTools;
  readonly scratch: string;
  readonly ids: Ids;
}

/** A volume that travels, or one of its snapshots that becomes a volume. */
export interface Shipment {
  readonly pool: StoragePool;
  readonly source: VolumeRef | SnapshotRef;
  /** A guest may write to it meanwhile. */
  readonly running: boolean;
  /** Texts beside the root of a container, of a snapshot or of the volume itself. */
  beside(snapshot: string | undefined): Beside;
}

/** Called with the bytes since the last call. */
export type Count = (bytes: number) => void;

interface Sending {
  readonly shipment: Shipment;
  readonly agreement: Agreement;
  readonly channel: DataChannel;
  readonly signal: AbortSignal;
  readonly count: Count;
}

/** Guest ids: what is on the wire means the same everywhere. */
const plain: RootOptions = { idRange: undefined, clone: 'auto', nesting: false };

/** Sends volumes with their snapshots, oldest first, the volume itself last. */
export class VolumeSender {
  readonly #options: SenderOptions;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  async send(sending: Sending): Promise<void> {
    if (isNative(sending.agreement.type.fs)) return this.#native(sending);
    const { shipment, agreement } = sending;
    const { pool, source } = shipment;
    for (const snapshot of agreement.snapshots) await this.#part(sending, snapshot, snapshot);
    if ('snapshot' in source) return this.#part(sending, source.snapshot, undefined);
    // A snapshot that lives as long as the transfer: the source may run, or start, meanwhile.
    const name = `${TEMPORARY_PREFIX}${this.#options.ids.secret(6)}`;
    await pool.snapshots.create(source, name, { running: true });
    try {
      await this.#part(sending, name, undefined);
    } finally {
      // The volume may have gone meanwhile, and the snapshot with it.
      await pool.snapshots.delete(source, name).catch(async (error: unknown) => {
        if (await pool.volumes.exists(source)) throw error;
      });
    }
  }

  /** One state: what the snapshot holds, told of as `as`. */
  async #part(sending: Sending, snapshot: string, as: string | undefined): Promise<void> {
    const { pool, source } = sending.shipment;
    const { path } = await pool.snapshots.mount(source, snapshot, plain);
    try {
      if (source.contentType !== 'filesystem')
        await this.#block(sending, source.type === 'custom' ? path : join(path, DISK));
      else if (source.type === 'custom') await this.#tree(sending, path);
      else await this.#root(sending, path, as);
    } finally {
      await pool.snapshots.unmount(source, snapshot).catch(async (error: unknown) => {
        if (await pool.volumes.exists(source)) throw error;
      });
    }
  }

  /** As LXD lays an instance out: the root in a folder, its description beside it. */
  async #root(sending: Sending, path: string, as: string | undefined): Promise<void> {
    await using stage = await Stage.open(this.#options.scratch, this.#options.tools);
    await stage.bind(path, join(VOLUME, ROOT), { readOnly: true });
    await stage.write(sending.shipment.beside(as));
    await this.#tree(sending, join(stage.path, VOLUME));
  }

  async #tree({ shipment, agreement, channel, signal, count }: Sending, path: string): Promise<void> {
    const bwlimit = shipment.pool.spec.config['rsync.bwlimit'] ?? '';
    const { wire, done } = counted(channel, count, 'outgoing');
    const { features } = agreement.type;
    await Promise.all([this.#options.tools.sendTree(path, wire, { features, bwlimit, signal }), done]);
  }

  async #block({ channel, signal, count }: Sending, path: string): Promise<void> {
    await pipeline(counting(createReadStream(path, { highWaterMark: 1024 * 1024 }), count), channel.write(), {
      signal,
    });
  }

  async #native({ shipment, agreement, channel, signal, count }: Sending): Promise<void> {
    const { pool, source } = shipment;
    if (pool.transfer === undefined) throw new Error('The pool has no format of its own');
    await using send = await pool.transfer.send(source, {
      running: shipment.running,
      ...(source.type === 'custom' ? {} : { beside: shipment.beside(undefined) }),
    });
    const parts = [...agreement.snapshots, undefined];
    const inside = await Promise.all(parts.map(async (part) => (await send.inside?.(part)) ?? []));
    const described = parts.flatMap((part, at) => [
      { path: '/', snapshot: part ?? '', readonly: part !== undefined, uuid: '' },
      ...(inside[at] ?? []).map((one) => ({
        path: `/${one.path}`,
        snapshot: part ?? '',
        readonly: one.readOnly,
        uuid: '',
      })),
    ]);
    if (agreement.type.features.includes('migration_header')) await writeAll(channel, { subvolumes: described });
    for (const [at, part] of parts.entries()) {
      const parent = agreement.parents.get(part);
      for (const one of [undefined, ...(inside[at] ?? [])]) {
        const options = { signal, ...(one === undefined ? {} : { inside: one.path }) };
        const content = await send.open(part, parent, options);
        await pipeline(counting(content, count), channel.write(), { signal });
      }
    }
  }
}

/** A channel's two directions, one of them counted. `done` rejects when the counted one breaks. */
export function counted(
  channel: DataChannel,
  count: Count,
  which: 'incoming' | 'outgoing',
): {
  readonly wire: { readonly incoming: Readable; readonly outgoing: PassThrough | ReturnType<DataChannel['write']> };
  readonly done: Promise<void>;
} {
  const incoming = channel.read();
  const outgoing = channel.write();
  if (which === 'incoming') return { wire: { incoming: counting(incoming, count), outgoing }, done: Promise.resolve() };
  const counter = new PassThrough({ highWaterMark: 256 * 1024 });
  counter.on('data', (chunk: Buffer) => count(chunk.length));
  const done = pipeline(counter, outgoing);
  done.catch((error: unknown) => counter.destroy(error instanceof Error ? error : new Error(String(error))));
  return { wire: { incoming, outgoing: counter }, done };
}

export function counting(source: Readable, count: Count): Readable {
  source.on('data', (chunk: Buffer) => count(chunk.length));
  source.pause(); // a listener would make it flow before anybody reads
  return source;
}
