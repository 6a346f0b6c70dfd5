import type { TransformCallback } from 'node:stream';
import { errors } from '../../../core/errors.ts';
import { RecordStream } from '../common/record-stream.ts';

// The format of <linux/btrfs.h>'s send streams: a header, then commands of attributes; all numbers little-endian.
const MAGIC = Buffer.from('btrfs-stream\0', 'latin1');
const HEADER = MAGIC.length + 4;
const COMMAND_HEADER = 10;
const LARGEST_COMMAND = 16 * 1024 * 1024;
const VERSIONS = [1, 2, 3];
const COMMAND = { subvolume: 1, snapshot: 2, clone: 16, end: 21 } as const;
const ATTRIBUTE = { uuid: 1, path: 15, cloneUuid: 20, cloneTransaction: 21 } as const;

/** What an incremental stream builds on. */
export interface StreamParent {
  /** 32 hex digits. */
  readonly uuid: string;
  readonly transaction: bigint;
}

export interface SendStreamOptions {
  /** Name the received subvolume gets, whatever its name was. */
  readonly name: string;
  /** The id under which this host finds what `parent` names, 32 hex digits. Its rejection fails the stream. */
  readonly findParent: (parent: StreamParent) => Promise<string>;
  readonly onBytes: (count: number) => void;
}

interface Attribute {
  readonly type: number;
  readonly value: Buffer;
}

/**
 * Passes one send stream on, its subvolume renamed and its parent replaced. Refuses with bad-request what is not a
 * complete stream, and clones from subvolumes other than the parent.
 */
export class SendStreamRewriter extends RecordStream {
  readonly #options: SendStreamOptions;
  /** Bytes of the present command that go on unread. */
  #passing = 0;
  #state: 'header' | 'start' | 'commands' | 'ended' = 'header';
  #own = '';
  #parent: { readonly from: string; readonly to: string } | undefined;

  constructor(options: SendStreamOptions) {
    super();
    this.#options = options;
  }

  override _transform(chunk: Buffer, encoding: BufferEncoding, done: TransformCallback): Promise<void> {
    this.#options.onBytes(chunk.length);
    return super._transform(chunk, encoding, done);
  }

  override _flush(done: TransformCallback): void {
    done(this.#state === 'ended' ? null : errors.badRequest('The btrfs stream ends too early'));
  }

  protected override step(data: Buffer): number | Promise<number> {
    if (this.#passing === 0) return this.#command(data);
    const part = data.subarray(0, this.#passing);
    this.emitPart(part);
    this.#passing -= part.length;
    return part.length;
  }

  async #command(data: Buffer): Promise<number> {
    if (this.#state === 'ended') {
      if (data.length > 0) throw errors.badRequest('Data follow the end of the btrfs stream');
      return 0;
    }
    if (this.#state === 'header') return this.#header(data);
    if (data.length < COMMAND_HEADER) return 0;
    const length = data.readUInt32LE(0);
    const command = data.readUInt16LE(4);
    if (length > LARGEST_COMMAND) throw notAStream();
    const first = command === COMMAND.subvolume || command === COMMAND.snapshot;
    if (first !== (this.#state === 'start')) throw notAStream();
    if (!first && command !== COMMAND.clone) {
      this.emitPart(data.subarray(0, COMMAND_HEADER));
      this.#passing = length;
      if (command === COMMAND.end) this.#state = 'ended';
      return COMMAND_HEADER;
    }
    if (data.length < COMMAND_HEADER + length) return 0;
    const attributes = readAttributes(data.subarray(COMMAND_HEADER, COMMAND_HEADER + length));
    const changed = first ? await this.#begin(command, attributes) : this.#clone(attributes);
    this.emitPart(encodeCommand(command, changed));
    return COMMAND_HEADER + length;
  }

  #header(data: Buffer): number {
    if (data.length < HEADER) {
      if (!data.subarray(0, MAGIC.length).equals(MAGIC.subarray(0, data.length))) throw notAStream();
      return 0;
    }
    if (!data.subarray(0, MAGIC.length).equals(MAGIC)) throw notAStream();
    if (!VERSIONS.includes(data.readUInt32LE(MAGIC.length))) throw notAStream();
    this.emitPart(data.subarray(0, HEADER));
    this.#state = 'start';
    return HEADER;
  }

  async #begin(command: number, attributes: readonly Attribute[]): Promise<Attribute[]> {
    this.#own = valueOf(attributes, ATTRIBUTE.uuid).toString('hex');
    if (command === COMMAND.snapshot) {
      const from = valueOf(attributes, ATTRIBUTE.cloneUuid).toString('hex');
      const transaction = valueOf(attributes, ATTRIBUTE.cloneTransaction).readBigUInt64LE(0);
      this.#parent = { from, to: await this.#options.findParent({ uuid: from, transaction }) };
    }
    this.#state = 'commands';
    const name = { type: ATTRIBUTE.path, value: Buffer.from(this.#options.name) };
    return this.#replaced(attributes).map((one) => (one.type === ATTRIBUTE.path ? name : one));
  }

  #clone(attributes: readonly Attribute[]): Attribute[] {
    const from = valueOf(attributes, ATTRIBUTE.cloneUuid).toString('hex');
    if (from !== this.#own && from !== this.#parent?.from)
      throw errors.badRequest('The btrfs stream takes data from a subvolume that is not its parent');
    return this.#replaced(attributes);
  }

  #replaced(attributes: readonly Attribute[]): Attribute[] {
    return attributes.map((one) =>
      one.type === ATTRIBUTE.cloneUuid && one.value.toString('hex') === this.#parent?.from
        ? { type: one.type, value: Buffer.from(this.#parent.to, 'hex') }
        : one,
    );
  }
}

function readAttributes(data: Buffer): Attribute[] {
  const attributes: Attribute[] = [];
  for (let at = 0; at < data.length; ) {
    if (at + 4 > data.length) throw notAStream();
    const end = at + 4 + data.readUInt16LE(at + 2);
    if (end > data.length) throw notAStream();
    attributes.push({ type: data.readUInt16LE(at), value: data.subarray(at + 4, end) });
    at = end;
  }
  return attributes;
}

const SIZES: Readonly<Record<number, number>> = {
  [ATTRIBUTE.uuid]: 16,
  [ATTRIBUTE.cloneUuid]: 16,
  [ATTRIBUTE.cloneTransaction]: 8,
};

function valueOf(attributes: readonly Attribute[], type: number): Buffer {
  const found = attributes.find((one) => one.type === type)?.value;
  if (found === undefined || found.length !== SIZES[type]) throw notAStream();
  return found;
}

/** One command with its checksum. */
export function encodeCommand(command: number, attributes: readonly Attribute[]): Buffer {
  const content = attributes.flatMap(({ type, value }) => {
    const header = Buffer.alloc(4);
    header.writeUInt16LE(type, 0);
    header.writeUInt16LE(value.length, 2);
    return [header, value];
  });
  const encoded = Buffer.concat([Buffer.alloc(COMMAND_HEADER), ...content]);
  encoded.writeUInt32LE(encoded.length - COMMAND_HEADER, 0);
  encoded.writeUInt16LE(command, 4);
  encoded.writeUInt32LE(crc32c(encoded), 6);
  return encoded;
}

/** CRC-32C without the usual inversions, as the kernel writes it into streams. */
function crc32c(data: Buffer): number {
  let crc = 0;
  for (const byte of data) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 1) === 0 ? crc >>> 1 : (crc >>> 1) ^ 0x82f63b78;
  }
  return crc >>> 0;
}

function notAStream(): Error {
  return errors.badRequest('The data are not a btrfs stream');
}
