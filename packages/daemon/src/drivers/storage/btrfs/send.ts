import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { errors } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { sendSubvolume } from '../../../host/tools/btrfs-send.ts';
import { nestedSubvolumes, snapshotSubvolume } from '../../../host/tools/btrfs-tree.ts';
import { byteCounter } from '../common/byte-counter.ts';
import { snapshotPath } from '../common/volume-names.ts';
import type { NativeInner, NativeSend, ProgressOptions, VolumeRef } from '../contract.ts';
import type { BtrfsContext } from './context.ts';

/** Name of the volume itself in the folder of a send. */
export const FROZEN = 'volume';

/** A frozen volume on its way out; `folder` holds what was made for that. */
export class BtrfsSend implements NativeSend {
  readonly #pool: BtrfsContext;
  readonly #source: VolumeRef;
  readonly #folder: string;
  readonly #inners = new Map<string, string>();
  readonly #running = new Set<{ readonly output: Readable; readonly ended: Promise<void> }>();

  constructor(pool: BtrfsContext, source: VolumeRef, folder: string) {
    this.#pool = pool;
    this.#source = source;
    this.#folder = folder;
  }

  async open(
    part: string | undefined,
    parent: string | undefined,
    options: ProgressOptions & { readonly inside?: string } = {},
  ): Promise<Readable> {
    const { inside } = options;
    const path = inside === undefined ? await this.#path(part) : await this.#inner(part, inside);
    const sending = sendSubvolume(path, {
      parent: await this.#parent(parent, inside),
      signal: options.signal,
      onBytes: byteCounter('send', options),
    });
    this.#running.add(sending);
    void sending.ended.then(() => this.#running.delete(sending));
    return sending.output;
  }

  async inside(part: string | undefined): Promise<readonly NativeInner[]> {
    return nestedSubvolumes(await this.#path(part));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { output, ended } of this.#running) {
      output.destroy();
      await ended;
    }
    await this.#pool.trash.discard(this.#folder);
  }

  async #parent(parent: string | undefined, inside: string | undefined): Promise<string | undefined> {
    if (parent === undefined) return undefined;
    // Of what is inside, the other end knows only the states this send gave it.
    return inside === undefined ? this.#path(parent) : this.#inners.get(innerKey(parent, inside));
  }

  /** Inner subvolumes are writable: what is sent is a frozen copy. */
  async #inner(part: string | undefined, inside: string): Promise<string> {
    const known = this.#inners.get(innerKey(part, inside));
    if (known !== undefined) return known;
    if (!(await this.inside(part)).some(({ path }) => path === inside))
      throw errors.notFound(`There is no subvolume "${inside}" in the volume "${this.#source.name}"`);
    const copy = join(this.#folder, `inner-${this.#inners.size}`);
    await snapshotSubvolume(join(await this.#path(part), inside), copy, { readOnly: true });
    this.#inners.set(innerKey(part, inside), copy);
    return copy;
  }

  async #path(part: string | undefined): Promise<string> {
    if (part === undefined) return join(this.#folder, FROZEN);
    const path = snapshotPath(this.#pool.path, this.#source, part);
    if (!(await pathExists(path))) throw errors.notFound('Storage volume snapshot not found');
    return path;
  }
}

function innerKey(part: string | undefined, inside: string): string {
  return `${part ?? ''}/${inside}`;
}
