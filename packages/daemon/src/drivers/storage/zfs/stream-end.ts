/** Bytes of one record of a `zfs send` stream, and the number of the kind that ends one. */
const RECORD = 312;
const END = 5;

/** Watches a stream go by, to tell whether it ended where a ZFS stream ends: `zfs receive` does not mind what follows. */
export class StreamEnd {
  #tail: Buffer = Buffer.alloc(0);

  add(chunk: Buffer): void {
    const joined = chunk.length >= RECORD ? chunk : Buffer.concat([this.#tail, chunk]);
    this.#tail = Buffer.from(joined.subarray(Math.max(0, joined.length - RECORD)));
  }

  get complete(): boolean {
    // The kind stands first, in the byte order of the sender.
    return this.#tail.length === RECORD && (this.#tail.readUInt32LE(0) === END || this.#tail.readUInt32BE(0) === END);
  }
}
