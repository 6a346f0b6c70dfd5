import { type Readable, Transform } from 'node:stream';
import { errors } from '../../../core/errors.ts';
import { CommandError } from '../../../host/run.ts';
import { receiveDataset, sendDataset } from '../../../host/tools/zfs-stream.ts';
import { byteCounter } from '../common/byte-counter.ts';
import { isSnapshot, volumeKey, volumePath } from '../common/volume-names.ts';
import { unmountAll } from '../../../host/mounts.ts';
import type {
  NativeReceive,
  NativeSend,
  NativeTransfer,
  ProgressOptions,
  SnapshotRef,
  VolumeRef,
} from '../contract.ts';
import type { ZfsContext } from './context.ts';
import { StreamEnd } from './stream-end.ts';
import { datasetOf, snapshotName, STAGING } from './names.ts';
import { destroy, receive, rename, send, snapshot as takeSnapshot } from './plan.ts';

/** `zfs send` and `zfs receive`: whole volumes between pools of this kind, later states as differences. */
export class ZfsTransfer implements NativeTransfer {
  readonly format = 'zfs';
  readonly #pool: ZfsContext;

  constructor(pool: ZfsContext) {
    this.#pool = pool;
  }

  async send(source: VolumeRef | SnapshotRef): Promise<NativeSend> {
    const { datasets, newId, queue } = this.#pool;
    const { type, name, contentType } = source;
    const dataset = datasetOf(datasets.root, { type, name, contentType });
    const frozen = isSnapshot(source) ? datasetOf(datasets.root, source) : `${dataset}@migration-${newId()}`;
    await queue.run({ exclusive: [volumeKey(source)] }, async () => {
      if (!(await datasets.exists(isSnapshot(source) ? frozen : dataset)))
        throw errors.notFound('Storage volume not found');
      if (!isSnapshot(source)) await datasets.run(takeSnapshot(frozen));
    });
    return new ZfsSend(this.#pool, { dataset, frozen, own: !isSnapshot(source) });
  }

  async receive(target: VolumeRef, { refresh }: { readonly refresh: boolean }): Promise<NativeReceive> {
    const { datasets, newId } = this.#pool;
    const dataset = datasetOf(datasets.root, target);
    const there = await datasets.exists(dataset);
    if (there && !refresh) throw errors.conflict(`Volume "${target.name}" already exists`);
    if (!there && refresh) throw errors.notFound('Storage volume not found');
    const into = refresh ? dataset : `${datasets.root}/${STAGING}/${newId()}`;
    const known = refresh ? await datasets.snapshots(dataset) : [];
    return new ZfsReceive(this.#pool, { target, dataset, into, known });
  }
}

class ZfsSend implements NativeSend {
  readonly #pool: ZfsContext;
  readonly #from: { readonly dataset: string; readonly frozen: string; readonly own: boolean };
  readonly #open: { readonly output: Readable; readonly ended: Promise<void> }[] = [];
  #gone = false;

  constructor(pool: ZfsContext, from: { readonly dataset: string; readonly frozen: string; readonly own: boolean }) {
    this.#pool = pool;
    this.#from = from;
  }

  async open(part: string | undefined, parent: string | undefined, options: ProgressOptions = {}): Promise<Readable> {
    const { dataset, frozen } = this.#from;
    const name = part === undefined ? frozen : `${dataset}@${snapshotName(part)}`;
    const base = parent === undefined ? undefined : `${dataset}@${snapshotName(parent)}`;
    const count = byteCounter('Sending', options);
    const stream = sendDataset(send(name, base), { signal: options.signal, onBytes: count });
    this.#open.push(stream);
    return stream.output;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { output } of this.#open) output.destroy();
    await Promise.all(this.#open.map(({ ended }) => ended));
    const gone = this.#gone;
    this.#gone = true;
    if (this.#from.own && !gone) await this.#pool.datasets.run(destroy(this.#from.frozen));
  }
}

interface Target {
  readonly target: VolumeRef;
  readonly dataset: string;
  /** Where parts go: a scratch dataset, or the volume itself when it is refreshed. */
  readonly into: string;
  /** Snapshots the volume had before. */
  readonly known: readonly string[];
}

class ZfsReceive implements NativeReceive {
  readonly #pool: ZfsContext;
  readonly #to: Target;
  /** Names of the snapshots that came. */
  readonly #parts = new Set<string>();
  #whole = false;
  #committed = false;

  constructor(pool: ZfsContext, to: Target) {
    this.#pool = pool;
    this.#to = to;
  }

  /** A part arrives whole or not at all. Over a volume that is refreshed it also takes back what changed since the parent. */
  async accept(part: string | undefined, content: Readable, options: ProgressOptions = {}): Promise<void> {
    const { into, dataset, target } = this.#to;
    const refresh = into === dataset;
    if (refresh) await unmountAll(volumePath(this.#pool.path, target));
    const end = new StreamEnd();
    const checked = passOn(end, byteCounter('Receiving', options));
    content.once('error', (error) => checked.destroy(error));
    content.pipe(checked);
    try {
      await receiveDataset(receive(into, { force: refresh }), checked, options.signal);
    } catch (error) {
      options.signal?.throwIfAborted();
      if (!(error instanceof CommandError)) throw error;
      throw errors.badRequest(`The volume could not be received: ${error.stderr.trim()}`, error);
    }
    if (!end.complete) throw errors.badRequest('The volume could not be received: this is no whole stream of ZFS');
    if (part === undefined) this.#whole = true;
    else this.#parts.add(snapshotName(part));
  }

  /** The state that came last has a snapshot of the sender's beside it, which goes. */
  async commit(): Promise<void> {
    const { datasets, queue } = this.#pool;
    const { into, dataset, target } = this.#to;
    if (!this.#whole) throw errors.badRequest('The volume was not received to its end');
    await queue.run({ exclusive: [volumeKey(target)] }, async () => {
      await this.#dropForeign();
      if (into === dataset) return;
      if (await datasets.exists(dataset)) throw errors.conflict(`Volume "${target.name}" already exists`);
      await datasets.run(rename(into, dataset));
    });
    this.#committed = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#committed) return;
    const { datasets, newId } = this.#pool;
    const { into, dataset, known } = this.#to;
    if (into !== dataset) return datasets.delete(into, newId());
    // What was there before stays; the snapshots that came since go.
    for (const name of await datasets.snapshots(dataset)) if (!known.includes(name)) await datasets.run(destroy(name));
  }

  async #dropForeign(): Promise<void> {
    const { datasets } = this.#pool;
    const { into, known } = this.#to;
    for (const name of await datasets.snapshots(into))
      if (!known.includes(name) && !this.#parts.has(name.slice(name.indexOf('@') + 1)))
        await datasets.run(destroy(name));
  }
}

/** Lets a stream through; one that would set properties of its own, such as a mount point, fails before ZFS sees any of it. */
function passOn(end: StreamEnd, count: (bytes: number) => void): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      count(chunk.length);
      end.add(chunk);
      if (end.compound)
        done(errors.badRequest('The volume could not be received: its stream carries properties or several datasets'));
      else done(null, chunk);
    },
  });
}
