import { mkdtemp, rm } from 'node:fs/promises';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pack } from 'tar-stream';
import { errors } from '../../core/errors.ts';
import { runStream } from '../run-stream.ts';
import { squashfsFromTar } from '../tools/squashfs.ts';
import { compressCommand, packTar } from '../tools/tar.ts';
import type { TarCompression } from './format.ts';

export interface PackSource {
  /** Host folder of `/`. */
  readonly path: string;
  /** Set when the files carry host ids of this range. */
  readonly idRange: { readonly base: number; readonly size: number } | undefined;
}

export interface PackHead {
  readonly metadata: string;
  readonly templates: ReadonlyMap<string, string>;
}

export interface PackOptions {
  readonly compression: string;
  readonly signal?: AbortSignal;
}

const codecs: readonly TarCompression[] = ['gzip', 'bzip2', 'lzma', 'xz', 'zstd'];

/** Two blocks of zeros, which end a tar. */
const END_LENGTH = 1024;

/** Makes unified images of root file systems. */
export class ArchivePacker {
  readonly #scratch: string;

  /** `scratch`: where a squashfs is built before it is sent. */
  constructor(scratch: string) {
    this.#scratch = scratch;
  }

  /** metadata.yaml, templates/ and rootfs/, compressed; fails in the middle when the packing does. */
  async *pack(source: PackSource, head: PackHead, options: PackOptions): AsyncGenerator<Uint8Array> {
    const { compression, signal } = options;
    if (compression === 'squashfs') {
      yield* this.#squashfs(source, head, signal);
      return;
    }
    const codec = codecs.find((known) => known === compression);
    if (compression !== 'none' && codec === undefined) {
      throw errors.badRequest(`Invalid compression algorithm "${compression}"`);
    }
    const tar = tarOf(source, head, signal);
    yield* codec === undefined || codec === 'none' ? tar : compressed(tar, codec, signal);
  }

  async *#squashfs(source: PackSource, head: PackHead, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
    const folder = await mkdtemp(join(this.#scratch, 'image-pack-'));
    try {
      const path = join(folder, 'image.squashfs');
      await squashfsFromTar(tarOf(source, head, signal), path, signal);
      yield* createReadStream(path, { highWaterMark: 256 * 1024 }) as AsyncIterable<Uint8Array>;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/** The uncompressed archive: our own members first, then what tar makes of the root. */
function tarOf(source: PackSource, head: PackHead, signal: AbortSignal | undefined): PassThrough {
  const out = new PassThrough({ highWaterMark: 256 * 1024 });
  const work = async (): Promise<void> => {
    out.write(await headMembers(head));
    const options = {
      prefix: 'rootfs',
      ...(source.idRange === undefined ? {} : { idRange: source.idRange }),
      ...(signal === undefined ? {} : { signal }),
    };
    // The end is told only when tar ended well: half a root must never look whole.
    await packTar(source.path, options, async (members) => pipeline(members, out, { end: false }));
    out.end();
  };
  work().catch((error: unknown) => out.destroy(error instanceof Error ? error : new Error(String(error))));
  return out;
}

async function headMembers({ metadata, templates }: PackHead): Promise<Buffer> {
  const tar = pack();
  tar.entry({ name: 'metadata.yaml', mode: 0o644 }, metadata);
  if (templates.size > 0) tar.entry({ name: 'templates/', type: 'directory', mode: 0o755 });
  for (const [name, text] of templates) tar.entry({ name: `templates/${name}`, mode: 0o644 }, text);
  tar.finalize();
  const chunks: Uint8Array[] = [];
  for await (const chunk of tar as AsyncIterable<Uint8Array>) chunks.push(chunk);
  return Buffer.concat(chunks).subarray(0, -END_LENGTH);
}

function compressed(
  source: Readable,
  codec: Exclude<TarCompression, 'none'>,
  signal: AbortSignal | undefined,
): PassThrough {
  const out = new PassThrough({ highWaterMark: 256 * 1024 });
  const [command, args] = compressCommand(codec);
  const stdout = (output: Readable): Promise<void> => pipeline(output, out, { end: false });
  runStream(command, args, { stdin: source, stdout, ...(signal === undefined ? {} : { signal }) }).then(
    () => out.end(),
    (error: unknown) => out.destroy(error instanceof Error ? error : new Error(String(error))),
  );
  return out;
}
