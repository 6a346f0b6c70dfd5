import type { TransformCallback } from 'node:stream';
import { errors } from '../../../core/errors.ts';
import { RecordStream } from '../common/record-stream.ts';

// What `rbd export-diff` writes: a banner; records of a tag and a value: the snapshots it goes from and to, the size; then
// extents of data and zeroes; then the end. All numbers are little-endian; nothing has a checksum.
const BANNER = Buffer.from('rbd diff v1\n', 'latin1');
const TAG = { from: 0x66, to: 0x74, size: 0x73, data: 0x77, zero: 0x7a, end: 0x65 } as const;
const LONGEST_NAME = 1024;
/** `rbd import-diff` holds one extent of data in memory: longer ones are cut. */
const PIECE = 4 * 1024 * 1024;

export interface DiffStreamOptions {
  /** The name here of the snapshot that the stream builds on; undefined: it builds on nothing. Its rejection fails the stream. */
  readonly from: (name: string | undefined) => Promise<string | undefined>;
  /** Name that the state gets as a snapshot; undefined: it becomes none. */
  readonly to: string | undefined;
  /** Most bytes the image may have. */
  readonly limit: number;
}

/** Passes one stream on, its snapshots renamed. Refuses with bad-request what is no complete stream of an image. */
export class DiffStream extends RecordStream {
  readonly #options: DiffStreamOptions;
  #state: 'banner' | 'head' | 'extents' | 'ended' = 'banner';
  #from: string | undefined;
  readonly #seen = new Set<number>();
  #size = 0;
  /** Bytes of all extents so far: none lies twice at one place, so that they are no more than the image. */
  #covered = 0;
  /** Data of the present extent that have not passed: where they go, how many, and how many of them are announced. */
  #data = { at: 0, left: 0, announced: 0 };

  constructor(options: DiffStreamOptions) {
    super();
    this.#options = options;
  }

  override _flush(done: TransformCallback): void {
    if (this.#state !== 'ended') return done(errors.badRequest('The RBD stream ends too early'));
    // Only now: who reads it stops there, whatever follows.
    done(null, Buffer.of(TAG.end));
  }

  protected override step(content: Buffer): number | Promise<number> {
    return this.#data.left > 0 ? this.#pass(content) : this.#record(content);
  }

  #pass(content: Buffer): number {
    if (content.length === 0) return 0;
    const data = this.#data;
    if (data.announced === 0) {
      data.announced = Math.min(data.left, PIECE);
      this.emitPart(extent(TAG.data, data.at, data.announced));
    }
    const part = content.subarray(0, data.announced);
    this.emitPart(part);
    data.at += part.length;
    data.left -= part.length;
    data.announced -= part.length;
    return part.length;
  }

  /** Everything but data. */
  async #record(content: Buffer): Promise<number> {
    if (this.#state === 'banner') return this.#banner(content);
    const tag = content[0];
    if (tag === undefined) return 0;
    if (this.#state === 'ended') throw errors.badRequest('Data follow the end of the RBD stream');
    if (tag === TAG.from || tag === TAG.to) return this.#name(tag, content);
    if (tag === TAG.size) return this.#sizeRecord(content);
    await this.#endHead();
    if (tag === TAG.end) {
      this.#state = 'ended';
      return 1;
    }
    if (tag !== TAG.data && tag !== TAG.zero) throw notAStream();
    return this.#extent(tag, content);
  }

  #banner(content: Buffer): number {
    const there = content.subarray(0, BANNER.length);
    if (!there.equals(BANNER.subarray(0, there.length))) throw notAStream();
    if (there.length < BANNER.length) return 0;
    this.#state = 'head';
    return BANNER.length;
  }

  #name(tag: number, content: Buffer): number {
    this.#once(tag);
    if (content.length < 5) return 0;
    const length = content.readUInt32LE(1);
    if (length === 0 || length > LONGEST_NAME) throw notAStream();
    if (content.length < 5 + length) return 0;
    // What the sender calls the state does not matter here.
    if (tag === TAG.from) this.#from = content.toString('utf8', 5, 5 + length);
    this.#seen.add(tag);
    return 5 + length;
  }

  #sizeRecord(content: Buffer): number {
    this.#once(TAG.size);
    if (content.length < 9) return 0;
    const size = content.readBigUInt64LE(1);
    if (size > BigInt(this.#options.limit))
      throw errors.badRequest(`The volume of the other server has ${size} bytes, more than the size asked for`);
    this.#size = Number(size);
    this.#seen.add(TAG.size);
    return 9;
  }

  #once(tag: number): void {
    if (this.#state !== 'head' || this.#seen.has(tag)) throw notAStream();
  }

  async #endHead(): Promise<void> {
    if (this.#state !== 'head') return;
    if (!this.#seen.has(TAG.size)) throw notAStream();
    const from = await this.#options.from(this.#from);
    const size = Buffer.alloc(9, TAG.size);
    size.writeBigUInt64LE(BigInt(this.#size), 1);
    for (const part of [BANNER, name(TAG.from, from), name(TAG.to, this.#options.to), size]) this.emitPart(part);
    this.#state = 'extents';
  }

  #extent(tag: number, content: Buffer): number {
    if (content.length < 17) return 0;
    const [at, length] = [content.readBigUInt64LE(1), content.readBigUInt64LE(9)];
    if (length === 0n || at + length > BigInt(this.#size)) throw notAStream();
    this.#covered += Number(length);
    if (this.#covered > this.#size) throw notAStream();
    if (tag === TAG.zero) this.emitPart(content.subarray(0, 17));
    else this.#data = { at: Number(at), left: Number(length), announced: 0 };
    return 17;
  }
}

function name(tag: number, text: string | undefined): Buffer {
  if (text === undefined) return Buffer.alloc(0);
  const head = Buffer.alloc(5, tag);
  head.writeUInt32LE(Buffer.byteLength(text), 1);
  return Buffer.concat([head, Buffer.from(text)]);
}

function extent(tag: number, at: number, length: number): Buffer {
  const head = Buffer.alloc(17, tag);
  head.writeBigUInt64LE(BigInt(at), 1);
  head.writeBigUInt64LE(BigInt(length), 9);
  return head;
}

function notAStream(): Error {
  return errors.badRequest('The data are not an RBD stream');
}
