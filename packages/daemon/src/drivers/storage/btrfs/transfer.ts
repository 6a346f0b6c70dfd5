import { chmod, mkdir, readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { errors, isKeelsonError } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { cloneMount, unmountAll } from '../../../host/mounts.ts';
import { CommandError } from '../../../host/run.ts';
import { renameExchange } from '../../../host/syscalls.ts';
import {
  createSubvolume,
  limitReferenced,
  referencedLimit,
  setReadOnly,
  snapshotSubvolume,
} from '../../../host/tools/btrfs.ts';
import { receiveSubvolume, sendSubvolume, setReceived, subvolumeInfo } from '../../../host/tools/btrfs-send.ts';
import { renameOrConflict } from '../common/publish.ts';
import { isSnapshot, snapshotPath, snapshotsPath, volumeKey, volumePath } from '../common/volume-names.ts';
import type {
  NativeReceive,
  NativeSend,
  NativeTransfer,
  ProgressOptions,
  SnapshotRef,
  VolumeRef,
} from '../contract.ts';
import { type BtrfsContext, discardSubvolume, MODES } from './context.ts';
import { publish } from './publish.ts';
import { SendStreamRewriter, type StreamParent } from './send-stream.ts';

/** `btrfs send` and `btrfs receive`: whole volumes between pools of this kind, later states as differences. */
export class BtrfsTransfer implements NativeTransfer {
  readonly format = 'btrfs';
  readonly #pool: BtrfsContext;

  constructor(pool: BtrfsContext) {
    this.#pool = pool;
  }

  async send(source: VolumeRef | SnapshotRef): Promise<NativeSend> {
    const { path, staging, newId, queue } = this.#pool;
    const folder = join(staging, newId());
    await queue.run({ exclusive: [volumeKey(source)] }, async () => {
      const frozen = isSnapshot(source) ? snapshotPath(path, source, source.snapshot) : volumePath(path, source);
      if (!(await pathExists(frozen))) throw errors.notFound('Storage volume not found');
      await mkdir(folder, { mode: 0o700 });
      await snapshotSubvolume(frozen, join(folder, FROZEN), { readOnly: true });
    });
    return new BtrfsSend(this.#pool, source, folder);
  }

  async receive(target: VolumeRef, { refresh }: { readonly refresh: boolean }): Promise<NativeReceive> {
    const { path, staging, newId } = this.#pool;
    const there = await pathExists(volumePath(path, target));
    if (there && !refresh) throw errors.conflict(`Volume "${target.name}" already exists`);
    if (!there && refresh) throw errors.notFound('Storage volume not found');
    const folder = join(staging, newId());
    await createSubvolume(folder);
    const receive = new BtrfsReceive(this.#pool, target, { folder, refresh });
    try {
      await receive.open();
      return receive;
    } catch (error) {
      await receive[Symbol.asyncDispose]();
      throw error;
    }
  }
}

const FROZEN = 'volume';

class BtrfsSend implements NativeSend {
  readonly #pool: BtrfsContext;
  readonly #source: VolumeRef;
  readonly #folder: string;
  readonly #running = new Set<{ readonly output: Readable; readonly ended: Promise<void> }>();

  constructor(pool: BtrfsContext, source: VolumeRef, folder: string) {
    this.#pool = pool;
    this.#source = source;
    this.#folder = folder;
  }

  async open(part: string | undefined, parent: string | undefined, options: ProgressOptions = {}): Promise<Readable> {
    const path = await this.#path(part);
    const base = parent === undefined ? undefined : await this.#path(parent);
    const sending = sendSubvolume(path, {
      parent: base,
      signal: options.signal,
      onBytes: byteCounter('send', options),
    });
    this.#running.add(sending);
    void sending.ended.then(() => this.#running.delete(sending));
    return sending.output;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { output, ended } of this.#running) {
      output.destroy();
      await ended;
    }
    await this.#pool.trash.discard(this.#folder);
  }

  async #path(part: string | undefined): Promise<string> {
    if (part === undefined) return join(this.#folder, FROZEN);
    const path = snapshotPath(this.#pool.path, this.#source, part);
    if (!(await pathExists(path))) throw errors.notFound('Storage volume snapshot not found');
    return path;
  }
}

class BtrfsReceive implements NativeReceive {
  readonly #pool: BtrfsContext;
  readonly #target: VolumeRef;
  readonly #refresh: boolean;
  /** A subvolume that holds the received ones: nothing of it can be reached under a volume's name. */
  readonly #folder: string;
  /** The folder as a mount of its own, which `btrfs receive` cannot leave. */
  readonly #view: string;
  /** Received subvolumes in the folder, by part. */
  readonly #parts = new Map<string | undefined, string>();
  readonly #stop = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  #count = 0;

  constructor(pool: BtrfsContext, target: VolumeRef, options: { readonly folder: string; readonly refresh: boolean }) {
    this.#pool = pool;
    this.#target = target;
    this.#refresh = options.refresh;
    this.#folder = options.folder;
    this.#view = `${options.folder}.view`;
  }

  async open(): Promise<void> {
    await mkdir(this.#view, { mode: 0o700 });
    await cloneMount(this.#folder, this.#view);
  }

  accept(part: string | undefined, content: Readable, options: ProgressOptions = {}): Promise<void> {
    const accepted = this.#accept(part, content, options);
    this.#running = accepted.catch(() => undefined);
    return accepted;
  }

  async commit(): Promise<void> {
    const { path, staging, newId, queue, trash } = this.#pool;
    const received = this.#parts.get(undefined);
    if (received === undefined) throw errors.badRequest(`The volume "${this.#target.name}" did not arrive`);
    const to = volumePath(path, this.#target);
    const fresh = join(staging, newId());
    await queue.run({ exclusive: [volumeKey(this.#target)] }, async () => {
      if (!this.#refresh) {
        if (await pathExists(to)) throw errors.conflict(`Volume "${this.#target.name}" already exists`);
        await trash.discard(snapshotsPath(path, this.#target));
      }
      try {
        // Not the received subvolume itself: an incremental stream could take it, changed since, for its parent.
        await snapshotSubvolume(received, fresh, { readOnly: false });
        await chmod(fresh, MODES[this.#target.type]);
        await publish(this.#pool, this.#target, {
          head: fresh,
          snapshots: this.#snapshots(),
          place: () => (this.#refresh ? replace(fresh, to) : renameOrConflict(fresh, to, this.#target.name)),
        });
      } finally {
        await discardSubvolume(this.#pool, fresh);
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the transfer was given up'));
    await this.#running;
    await unmountAll(this.#view);
    await rmdir(this.#view).catch(() => undefined);
    await this.#pool.trash.discard(this.#folder);
  }

  async #accept(part: string | undefined, content: Readable, options: ProgressOptions): Promise<void> {
    const name = `part-${this.#count++}`;
    const rewriter = new SendStreamRewriter({
      name,
      findParent: (parent) => this.#parent(parent),
      onBytes: byteCounter('receive', options),
    });
    const signal = AbortSignal.any([this.#stop.signal, ...(options.signal === undefined ? [] : [options.signal])]);
    const results = await Promise.allSettled([
      pipeline(content, rewriter, { signal }),
      receiveSubvolume(this.#view, rewriter, signal),
    ]);
    const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
    signal.throwIfAborted();
    if (failures.length > 0) throw this.#failure(failures);
    this.#parts.set(part, join(this.#folder, name));
  }

  #failure(failures: readonly unknown[]): unknown {
    const own = failures.find((error) => isKeelsonError(error));
    if (own !== undefined) return own;
    const command = failures.find((error) => error instanceof CommandError);
    if (command === undefined) return failures[0];
    const words = command.stderr.split('\n').filter((line) => line.startsWith('ERROR:'));
    const text = `Cannot receive volume "${this.#target.name}": ${words.map((line) => line.slice(7)).join('; ')}`;
    return /No space left|quota exceeded/i.test(text)
      ? errors.unavailable(text, command)
      : errors.badRequest(text, command);
  }

  /** A copy of the parent that only this stream can name: others of the pool may have been received from the same one. */
  async #parent({ uuid, transaction }: StreamParent): Promise<string> {
    const found = await this.#find(uuid);
    if (found === undefined)
      throw errors.badRequest(`The btrfs stream builds on a snapshot that volume "${this.#target.name}" does not have`);
    const copy = join(this.#folder, `parent-${this.#count}`);
    await snapshotSubvolume(found, copy, { readOnly: false });
    const id = (await subvolumeInfo(copy)).uuid;
    await setReceived(copy, id, transaction);
    await setReadOnly(copy, true);
    return id;
  }

  async #find(uuid: string): Promise<string | undefined> {
    const names = this.#refresh ? await snapshotNames(this.#pool, this.#target) : [];
    const there = names.map((name) => snapshotPath(this.#pool.path, this.#target, name));
    for (const path of [...this.#parts.values(), ...there]) {
      const info = await subvolumeInfo(path);
      if (info.receivedUuid === uuid || info.uuid === uuid) return path;
    }
    return undefined;
  }

  #snapshots(): Map<string, string> {
    return new Map([...this.#parts].flatMap(([name, path]) => (name === undefined ? [] : [[name, path] as const])));
  }
}

/** The volume becomes `fresh`, with the limit it had. */
async function replace(fresh: string, current: string): Promise<void> {
  const limit = await referencedLimit(current);
  if (limit !== undefined) await limitReferenced(fresh, limit);
  await renameExchange(fresh, current);
}

async function snapshotNames({ path }: BtrfsContext, volume: VolumeRef): Promise<readonly string[]> {
  const folder = snapshotsPath(path, volume);
  return (await pathExists(folder)) ? readdir(folder) : [];
}

const REPORT_EVERY = 64 * 1024 * 1024;

function byteCounter(stage: string, { onProgress }: ProgressOptions): (count: number) => void {
  let [bytes, reported] = [0, 0];
  return (count) => {
    bytes += count;
    if (bytes - reported < REPORT_EVERY) return;
    reported = bytes;
    onProgress?.({ stage, bytes });
  };
}
