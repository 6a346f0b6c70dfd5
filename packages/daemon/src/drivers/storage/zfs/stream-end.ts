/** Bytes of one record of a `zfs send` stream, and the number of the kind that ends one. */
const RECORD = 312;
const END = 5;
/** Bytes of the first record up to the kind of stream, its magic number, and the kind that carries properties and children. */
const HEAD = 24;
const MAGIC = 0x2f5bacbacn;
const COMPOUND = 2n;

/** Watches a stream go by, to tell whether it ended where a ZFS stream ends: `zfs receive` does not mind what follows. */
export class StreamEnd {
  #tail: Buffer = Buffer.alloc(0);
  #head: Buffer = Buffer.alloc(0);

  add(chunk: Buffer): void {
    if (this.#head.length < HEAD) this.#head = Buffer.concat([this.#head, chunk.subarray(0, HEAD)]);
    const joined = chunk.length >= RECORD ? chunk : Buffer.concat([this.#tail, chunk]);
    this.#tail = Buffer.from(joined.subarray(Math.max(0, joined.length - RECORD)));
  }

  /** Whether it carries properties, such as a mount point, or several datasets: `zfs send -p` and `-R` make those. */
  get compound(): boolean {
    if (this.#head.length < HEAD) return false;
    const little = this.#head.readBigUInt64LE(8) === MAGIC;
    const kind = little ? this.#head.readBigUInt64LE(16) : this.#head.readBigUInt64BE(16);
    return (kind & 3n) === COMPOUND;
  }

  get complete(): boolean {
    // The kind stands first, in the byte order of the sender.
    return this.#tail.length === RECORD && (this.#tail.readUInt32LE(0) === END || this.#tail.readUInt32BE(0) === END);
  }
}
