import { chmod, mkdir, readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { errors, isKeelsonError } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { cloneMount, unmountAll } from '../../../host/mounts.ts';
import { CommandError } from '../../../host/run.ts';
import { renameExchange } from '../../../host/syscalls.ts';
import { limitReferenced, referencedLimit } from '../../../host/tools/btrfs.ts';
import { receiveSubvolume, setReceived, subvolumeInfo } from '../../../host/tools/btrfs-send.ts';
import { setReadOnly, snapshotInside, snapshotSubvolume, snapshotTree } from '../../../host/tools/btrfs-tree.ts';
import { byteCounter } from '../common/byte-counter.ts';
import { blocksIn, rootIn } from '../common/plain-content.ts';
import { renameOrConflict } from '../common/publish.ts';
import { contentFile, snapshotPath, snapshotsPath, volumeKey, volumePath } from '../common/volume-names.ts';
import type { NativeInner, NativeReceive, ProgressOptions, VolumeRef } from '../contract.ts';
import { type BtrfsContext, discardSubvolume, MODES } from './context.ts';
import { publish } from './publish.ts';
import { SendStreamRewriter, type StreamParent } from './send-stream.ts';

interface ReceivedPart {
  /** Received subvolume in the folder. */
  readonly path: string;
  readonly inner: (NativeInner & { readonly from: string })[];
}

/** A volume on its way in. */
export class BtrfsReceive implements NativeReceive {
  readonly #pool: BtrfsContext;
  readonly #target: VolumeRef;
  readonly #refresh: boolean;
  /** A subvolume that holds the received ones: nothing of it can be reached under a volume's name. */
  readonly #folder: string;
  /** The folder as a mount of its own, which `btrfs receive` cannot leave. */
  readonly #view: string;
  readonly #parts = new Map<string | undefined, ReceivedPart>();
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

  accept(
    part: string | undefined,
    content: Readable,
    options: ProgressOptions & { readonly inside?: NativeInner } = {},
  ): Promise<void> {
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
        await snapshotTree(await this.#checked(received), fresh);
        await chmod(fresh, MODES[this.#target.type]);
        await publish(this.#pool, this.#target, {
          head: fresh,
          snapshots: await this.#snapshots(),
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

  async #accept(
    part: string | undefined,
    content: Readable,
    options: ProgressOptions & { readonly inside?: NativeInner },
  ): Promise<void> {
    const { inside } = options;
    const outer = this.#parts.get(part);
    if (inside !== undefined && outer === undefined)
      throw errors.badRequest(`The subvolume "${inside.path}" arrived before what it lies in`);
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
    const path = join(this.#folder, name);
    if (inside === undefined) this.#parts.set(part, { path, inner: [] });
    else outer?.inner.push({ ...inside, from: path });
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
    const arrived = [...this.#parts.values()].flatMap(({ path, inner }) => [path, ...inner.map(({ from }) => from)]);
    for (const path of [...arrived.reverse(), ...there]) {
      const info = await subvolumeInfo(path);
      if (info.receivedUuid === uuid || info.uuid === uuid) return path;
    }
    return undefined;
  }

  async #snapshots(): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    for (const [name, part] of this.#parts) if (name !== undefined) found.set(name, await this.#checked(part));
    return found;
  }

  /** The part, complete, with content where it has to be. */
  async #checked(part: ReceivedPart): Promise<string> {
    const whole = await this.#whole(part);
    const { type, contentType } = this.#target;
    if (type === 'container') await rootIn(whole);
    else if (contentType !== 'filesystem' && (await blocksIn(whole, contentFile(this.#target))) === undefined)
      throw errors.badRequest(`The volume "${this.#target.name}" did not arrive`);
    return whole;
  }

  /** The part with what is inside it. */
  async #whole(part: ReceivedPart): Promise<string> {
    if (part.inner.length === 0) return part.path;
    const whole = `${part.path}-whole`;
    await snapshotSubvolume(part.path, whole, { readOnly: false });
    for (const { path, from } of part.inner) await snapshotInside(from, whole, path);
    for (const { path, readOnly } of part.inner) if (readOnly) await setReadOnly(join(whole, path), true);
    const { receivedUuid, sentAt } = await subvolumeInfo(part.path);
    if (receivedUuid !== undefined) await setReceived(whole, receivedUuid, sentAt);
    return whole;
  }
}

/** The volume becomes `fresh`, with the limit it had. */
async function replace(fresh: string, current: string): Promise<void> {
  const limit = await referencedLimit(current);
  if (limit !== undefined) await limitReferenced(fresh, limit);
  await renameExchange(fresh, current);
}

export async function snapshotNames({ path }: BtrfsContext, volume: VolumeRef): Promise<readonly string[]> {
  const folder = snapshotsPath(path, volume);
  return (await pathExists(folder)) ? readdir(folder) : [];
}
