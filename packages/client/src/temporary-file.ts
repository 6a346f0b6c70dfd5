import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CallOptions } from './model.ts';
import type { Download } from './resources/common.ts';

/** Bytes per write of an export: the contract's 1 kilobyte. */
export const EXPORT_CHUNK = 1024;

/** A file that is deleted once closed. */
export class TemporaryFile implements AsyncDisposable {
  /** Absolute path, until it is closed. */
  readonly path: string;
  /** Open for reading and writing. */
  readonly handle: FileHandle;
  readonly #folder: string;

  private constructor(folder: string, path: string, handle: FileHandle) {
    this.#folder = folder;
    this.path = path;
    this.handle = handle;
  }

  /** @internal */
  static async create(): Promise<TemporaryFile> {
    const folder = await mkdtemp(join(tmpdir(), 'keelson-export-'));
    const path = join(folder, 'export');
    return new TemporaryFile(folder, path, await open(path, 'wx+', 0o600));
  }

  /** Closes and deletes the file. Idempotent. */
  async close(): Promise<void> {
    await this.handle.close().catch(() => undefined);
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** As `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** What `image.export()` gives, or the image itself. */
export type Exportable =
  | Download
  | Promise<Download>
  | {
      /** `image.export()` */
      export(options?: CallOptions): Promise<Download>;
    };

/**
 * Streams a download into a temporary file, `chunkSize` bytes a write (default 1 KiB; more is faster). The file is
 * deleted once closed, and at once when the download fails. @throws ClientConnectionFailed when it breaks off
 */
export async function exportToFile(
  source: Exportable,
  options: CallOptions & { readonly chunkSize?: number } = {},
): Promise<TemporaryFile> {
  const { chunkSize = EXPORT_CHUNK, signal } = options;
  if (!Number.isInteger(chunkSize) || chunkSize < 1) throw new RangeError('chunkSize must be a positive integer');
  const download = await ('export' in source ? source.export({ signal }) : source);
  const file = await TemporaryFile.create();
  try {
    for await (const bytes of download) {
      for (let at = 0; at < bytes.byteLength; at += chunkSize) {
        await file.handle.writeFile(bytes.subarray(at, at + chunkSize));
      }
    }
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}
