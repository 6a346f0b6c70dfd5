import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { errors, isKeelsonError } from '../../../core/errors.ts';
import { CommandError } from '../../../host/run.ts';
import { importDiff } from '../../../host/tools/rbd-diff.ts';
import { byteCounter } from '../common/byte-counter.ts';
import { rootIn } from '../common/plain-content.ts';
import { volumeKey } from '../common/volume-names.ts';
import type { NativeReceive, ProgressOptions, VolumeRef } from '../contract.ts';
import { type Config, imageArguments, sizeIn } from './config.ts';
import type { CephContext } from './context.ts';
import { DiffStream } from './diff-stream.ts';
import { isBlock, scratchName, snapshotName } from './names.ts';
import type { CephVolumes } from './volumes.ts';

interface Target {
  readonly target: VolumeRef;
  readonly refresh: boolean;
  readonly config: Config;
}

/** Bytes by which other servers may round sizes up. */
const ROUNDING = 1024 * 1024;

/**
 * A volume on its way in, as an image that has no volume's name: of a new volume an image of its own, of one that is
 * refreshed a clone of the snapshot that the parts build on.
 */
export class CephReceive implements NativeReceive {
  readonly #pool: CephContext;
  readonly #volumes: CephVolumes;
  readonly #to: Target;
  readonly #scratch: string;
  readonly #stop = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  #made = false;
  /** Snapshot of the volume that the parts build on, and those that came. */
  #base: string | undefined;
  readonly #parts: string[] = [];
  #state: 'parts' | 'whole' | 'broken' | 'committed' = 'parts';

  constructor(pool: CephContext, volumes: CephVolumes, to: Target) {
    this.#pool = pool;
    this.#volumes = volumes;
    this.#to = to;
    this.#scratch = scratchName(pool.mark(), pool.newId());
  }

  accept(part: string | undefined, content: Readable, options: ProgressOptions = {}): Promise<void> {
    const accepted = this.#accept(part, content, options);
    this.#running = accepted.catch(() => undefined);
    return accepted;
  }

  async commit(): Promise<void> {
    const { target, refresh } = this.#to;
    if (this.#state !== 'whole') throw errors.badRequest(`The volume "${target.name}" did not arrive`);
    await this.#check();
    await this.#pool.queue.run({ exclusive: [volumeKey(target)] }, async () => {
      if (refresh) await this.#replace();
      else {
        if (await this.#volumes.exists(target)) throw errors.conflict(`Volume "${target.name}" already exists`);
        await this.#pool.images.rename(this.#scratch, this.#volumes.mounter.image(target));
      }
    });
    this.#state = 'committed';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the transfer was given up'));
    await this.#running;
    if (this.#state === 'committed' || !this.#made) return;
    this.#made = false;
    await this.#volumes.mounter.unmap(this.#scratch);
    await this.#pool.lives.discard(this.#scratch);
  }

  async #accept(part: string | undefined, content: Readable, options: ProgressOptions): Promise<void> {
    const signal = AbortSignal.any([this.#stop.signal, ...(options.signal === undefined ? [] : [options.signal])]);
    if (this.#state !== 'parts')
      throw errors.badRequest(`The volume "${this.#to.target.name}" did not arrive in order`);
    this.#state = 'broken';
    const ready = Promise.withResolvers<void>();
    const stream = new DiffStream({
      from: async (name) => {
        const known = await this.#begin(name);
        ready.resolve();
        return known;
      },
      to: part === undefined ? undefined : snapshotName(part),
      limit: this.#limit(),
    });
    const count = byteCounter('Receiving', options);
    content.on('data', (chunk: Buffer) => count(chunk.length)).pause(); // a listener makes it flow
    const results = await Promise.allSettled([
      pipeline(content, stream, { signal }).catch((error: unknown) => {
        ready.reject(error);
        throw error;
      }),
      this.#import(ready.promise, stream, signal),
    ]);
    const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
    signal.throwIfAborted();
    if (failures.length > 0) throw this.#failure(failures);
    if (part === undefined) this.#state = 'whole';
    else {
      this.#parts.push(snapshotName(part));
      this.#state = 'parts';
    }
  }

  async #import(ready: Promise<void>, stream: DiffStream, signal: AbortSignal): Promise<void> {
    try {
      await ready;
      await importDiff(this.#pool.place, this.#scratch, stream, signal);
    } catch (error) {
      stream.destroy();
      throw error;
    }
  }

  /** Makes what the first part goes into. @throws bad-request for a state that builds on another than the one before. */
  async #begin(from: string | undefined): Promise<string | undefined> {
    const { target, refresh } = this.#to;
    const last = this.#parts.at(-1) ?? this.#base;
    if (this.#made) {
      if (from !== last) throw misses(target, from);
      return from;
    }
    const { images } = this.#pool;
    if (!refresh) {
      if (from !== undefined) throw misses(target, from);
      await images.create(this.#scratch, 0, imageArguments(this.#pool.config()));
      this.#made = true;
      return undefined;
    }
    const image = this.#volumes.mounter.image(target);
    if (from === undefined || !(await images.snapshots(image)).some(({ name }) => name === from))
      throw misses(target, from);
    this.#base = from;
    this.#made = true;
    await images.clone({ image, snapshot: from }, this.#scratch, imageArguments(this.#pool.config()));
    await images.snapshot(this.#scratch, from);
    return from;
  }

  /** Bytes the image may have: what was asked for counts against limits; file systems are resized once they are there. */
  #limit(): number {
    const asked = isBlock(this.#to.target) ? sizeIn(this.#to.config) : undefined;
    return asked === undefined ? Number.MAX_SAFE_INTEGER : asked + ROUNDING;
  }

  /** What arrived is what this host is about to use. @throws bad-request. */
  async #check(): Promise<void> {
    const { target, config } = this.#to;
    const { images } = this.#pool;
    const { mounter, maker } = this.#volumes;
    if (isBlock(target)) {
      const [found, asked] = [await images.find(this.#scratch), sizeIn(config) ?? 0];
      if (found !== undefined && found.size < asked) await images.resize(this.#scratch, asked);
      return;
    }
    await maker.takeOver(this.#scratch, target);
    if (target.type !== 'container') return;
    await mounter.withMounted(this.#scratch, async (path) => {
      try {
        await rootIn(path);
      } catch (error) {
        throw isKeelsonError(error, 'not-found') ? errors.badRequest('The volume holds no root file system') : error;
      }
    });
  }

  async #replace(): Promise<void> {
    const { target } = this.#to;
    const { images } = this.#pool;
    const { mounter, journal } = this.#volumes;
    const image = mounter.image(target);
    await journal.mend(target);
    const [found, there] = [await images.find(image), await images.snapshots(image)];
    const taken = there.find(({ name }) => this.#parts.includes(name));
    if (taken !== undefined) throw errors.conflict(`Snapshot "${taken.name}" already exists`);
    if (found === undefined || this.#base === undefined) throw errors.notFound('Storage volume not found');
    if (!there.some(({ name }) => name === this.#base)) throw misses(target, this.#base);
    await mounter.unmount(target);
    this.#made = false; // from here on the journal's, also when it is cut off
    const states = { staged: this.#scratch, base: this.#base, parts: this.#parts };
    await journal.refresh({ volume: target, ...states, size: found.size });
  }

  #failure(failures: readonly unknown[]): unknown {
    const own = failures.find((error) => isKeelsonError(error));
    if (own !== undefined) return own;
    const command = failures.find((error) => error instanceof CommandError);
    if (command === undefined) return failures[0];
    const text = `Cannot receive volume "${this.#to.target.name}": ${command.stderr.trim()}`;
    return /No space left|quota exceeded/i.test(text)
      ? errors.unavailable(text, command)
      : errors.badRequest(text, command);
  }
}

function misses({ name }: VolumeRef, from: string | undefined): Error {
  return errors.badRequest(
    from === undefined
      ? `The RBD stream does not build on a snapshot of volume "${name}"`
      : `The RBD stream builds on a snapshot that volume "${name}" does not have`,
  );
}
