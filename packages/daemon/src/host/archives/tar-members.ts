import { pack } from 'tar-stream';

export const BLOCK = 512;
/** Two blocks of zeros, which end a tar. */
export const TAR_END = Buffer.alloc(2 * BLOCK);

/** Bytes that the programs write at a time. */
export const RECORD = 128 * BLOCK;
/** So much of the end of what they wrote holds all that is not content. */
export const TAIL = 2 * RECORD;
/** The last member that they are told to pack: `contentLength` finds it. */
export const LAST_MEMBER = '/dev/null';

const NAME = Buffer.from('dev/null\0');
const ATTRIBUTES = Buffer.from('dev/PaxHeaders');
const TYPE = 156;
const SIZE = 124;
const CHECKSUM = 148;
const CHARACTER = '3'.charCodeAt(0);
const EXTENDED = 'x'.charCodeAt(0);
/** Larger sizes do not fit into eleven octal digits. */
const OCTAL_SIZES = 8 ** 11;

/**
 * Length of what goes before `LAST_MEMBER`. `tail` is the end of a tar of GNU tar in format posix: it fills its last
 * record with zeros, so that a tar that is to be followed by another has to be cut there.
 * @throws Error when the member is not the last.
 */
export function contentLength(tail: Buffer): number {
  // The member has no content: its header is the last block that is not zero.
  let at = tail.length - BLOCK;
  while (at >= 0 && tail.subarray(at, at + BLOCK).equals(TAR_END.subarray(BLOCK))) at -= BLOCK;
  if (at < 0 || tail[at + TYPE] !== CHARACTER || !tail.subarray(at, at + NAME.length).equals(NAME))
    throw new Error('tar did not end with the member it was told to');
  // Its times: one block of header, one of text.
  const extended = at - 2 * BLOCK;
  if (extended < 0 || tail[extended + TYPE] !== EXTENDED) return at;
  return tail.subarray(extended, extended + ATTRIBUTES.length).equals(ATTRIBUTES) ? extended : at;
}

/** Header of a file of root's; `size` bytes and `padding(size)` follow it. */
export async function memberHeader(member: { readonly name: string; readonly mode: number }, size: number) {
  const header = await textMember(member, '');
  return withSize(header, size);
}

/** A whole member. */
export async function textMember(
  member: { readonly name: string; readonly mode: number },
  text: string,
): Promise<Buffer> {
  const tar = pack();
  tar.entry(member, text);
  tar.finalize();
  const chunks: Uint8Array[] = [];
  for await (const chunk of tar as AsyncIterable<Uint8Array>) chunks.push(chunk);
  return Buffer.concat(chunks).subarray(0, -TAR_END.length);
}

/** Zeros up to the next block. */
export function padding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
}

/** The header with another size; its last block is the one that tells it. */
export function withSize(header: Buffer, size: number): Buffer {
  const all = Buffer.from(header);
  const last = all.subarray(-BLOCK);
  if (size < OCTAL_SIZES) last.write(`${size.toString(8).padStart(11, '0')}\0`, SIZE, 'latin1');
  else {
    last.fill(0, SIZE, SIZE + 12);
    last[SIZE] = 0x80;
    last.writeBigUInt64BE(BigInt(size), SIZE + 4);
  }
  last.fill(' ', CHECKSUM, CHECKSUM + 8);
  const sum = last.reduce((total, byte) => total + byte, 0);
  last.write(`${sum.toString(8).padStart(6, '0')}\0 `, CHECKSUM, 'latin1');
  return all;
}
