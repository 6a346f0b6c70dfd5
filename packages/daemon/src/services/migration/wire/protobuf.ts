import { errors } from '../../../core/errors.ts';

/** One field of a message: a number, or bytes (a text or a message of its own). */
export interface WireField {
  readonly number: number;
  readonly value: bigint | Buffer;
}

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;
/** Most fields of one message: each takes many times its bytes once it is read. */
const FIELDS = 100_000;

/** Builds one message of Protocol Buffers; only what the migration messages use. */
export class MessageWriter {
  readonly #parts: Buffer[] = [];

  /** Numbers and booleans; negative ones as 64-bit two's complement, as the format has them. */
  number(field: number, value: number | bigint | boolean | undefined): this {
    if (value === undefined) return this;
    this.#parts.push(varint(BigInt(field * 8 + VARINT)), varint(BigInt.asUintN(64, BigInt(value))));
    return this;
  }

  bytes(field: number, value: string | Buffer | undefined): this {
    if (value === undefined) return this;
    const content = typeof value === 'string' ? Buffer.from(value) : value;
    this.#parts.push(varint(BigInt(field * 8 + BYTES)), varint(BigInt(content.length)), content);
    return this;
  }

  finish(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

/** The fields of a message, in their order. @throws bad-request for what is no message. */
export function readFields(data: Buffer): WireField[] {
  const found: WireField[] = [];
  let at = 0;
  const next = (): bigint => {
    let [value, shift] = [0n, 0n];
    for (;;) {
      const byte = data[at++];
      if (byte === undefined || shift > 63n) throw malformed();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
      shift += 7n;
    }
  };
  const take = (length: number): Buffer => {
    if (length > data.length - at) throw malformed();
    at += length;
    return data.subarray(at - length, at);
  };
  while (at < data.length) {
    if (found.length >= FIELDS) throw malformed();
    const key = Number(next());
    const number = Math.floor(key / 8);
    switch (key % 8) {
      case VARINT:
        found.push({ number, value: next() });
        break;
      case BYTES:
        found.push({ number, value: take(Number(next())) });
        break;
      case FIXED64:
        take(8); // no field of ours: left out
        break;
      case FIXED32:
        take(4);
        break;
      default:
        throw malformed();
    }
  }
  return found;
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

function malformed(): Error {
  return errors.badRequest('The other server sent a message that cannot be read');
}
