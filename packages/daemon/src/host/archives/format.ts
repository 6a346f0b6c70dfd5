import { open } from 'node:fs/promises';
import { errors } from '../../core/errors.ts';

/** How a tar is compressed; the value is the suffix after `.tar`. */
export type TarCompression = 'none' | 'gzip' | 'xz' | 'zstd' | 'bzip2' | 'lzma';

export type ArchiveFormat =
  | { readonly kind: 'tar'; readonly compression: TarCompression }
  | { readonly kind: 'squashfs' }
  | { readonly kind: 'qcow2' };

/** Bytes `detectFormat` needs to see. */
export const FORMAT_HEAD = 512;

const magics: readonly { readonly bytes: readonly number[]; readonly format: ArchiveFormat }[] = [
  { bytes: [0x1f, 0x8b], format: { kind: 'tar', compression: 'gzip' } },
  { bytes: [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00], format: { kind: 'tar', compression: 'xz' } },
  { bytes: [0x28, 0xb5, 0x2f, 0xfd], format: { kind: 'tar', compression: 'zstd' } },
  { bytes: [0x42, 0x5a, 0x68], format: { kind: 'tar', compression: 'bzip2' } },
  { bytes: [0x5d, 0x00, 0x00], format: { kind: 'tar', compression: 'lzma' } },
  { bytes: [0x68, 0x73, 0x71, 0x73], format: { kind: 'squashfs' } },
  { bytes: [0x51, 0x46, 0x49, 0xfb], format: { kind: 'qcow2' } },
];

const USTAR = Buffer.from('ustar');
const USTAR_OFFSET = 257;

/** The format by its first bytes; undefined when none is known. File names are never asked. */
export function detectFormat(head: Uint8Array): ArchiveFormat | undefined {
  const found = magics.find(({ bytes }) => bytes.every((byte, index) => head[index] === byte));
  if (found !== undefined) return found.format;
  const magic = head.subarray(USTAR_OFFSET, USTAR_OFFSET + USTAR.length);
  return USTAR.equals(magic) ? { kind: 'tar', compression: 'none' } : undefined;
}

const suffixes: Readonly<Record<TarCompression, string>> = {
  none: '.tar',
  gzip: '.tar.gz',
  xz: '.tar.xz',
  zstd: '.tar.zst',
  bzip2: '.tar.bz2',
  lzma: '.tar.lzma',
};

/** File name suffix as LXD writes it, dot included. */
export function formatSuffix(format: ArchiveFormat): string {
  if (format.kind === 'squashfs') return '.squashfs';
  return format.kind === 'qcow2' ? '.img' : suffixes[format.compression];
}

/**
 * Reads the start of a file and says what it is.
 * @throws bad-request with LXD's text when it is empty or nothing known.
 */
export async function formatOfFile(path: string): Promise<ArchiveFormat> {
  await using file = await open(path, 'r');
  const head = Buffer.alloc(FORMAT_HEAD);
  const { bytesRead } = await file.read(head, 0, FORMAT_HEAD, 0);
  if (bytesRead === 0) throw errors.badRequest('EOF');
  const format = detectFormat(head.subarray(0, bytesRead));
  if (format === undefined) throw errors.badRequest('Unsupported compression');
  return format;
}
