import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Download } from './resources/common.ts';

/** Bytes per write of an export: the contract's 1 kilobyte. */
export const EXPORT_CHUNK = 1024;

/** A file that is deleted once closed. */
export class TemporaryFile implements AsyncDisposable {
  readonly path: string;
  readonly handle: FileHandle;
  readonly #folder: string;

  private constructor(folder: string, path: string, handle: FileHandle) {
    this.#folder = folder;
    this.path = path;
    this.handle = handle;
  }

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

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/**
 * Streams a download into a temporary file, `chunkSize` bytes a write (default 1 KiB). The file is deleted once
 * closed, and at once when the download fails.
 */
export async function exportToFile(
  download: Download | Promise<Download>,
  options: { readonly chunkSize?: number } = {},
): Promise<TemporaryFile> {
  const { chunkSize = EXPORT_CHUNK } = options;
  const file = await TemporaryFile.create();
  try {
    for await (const bytes of await download) {
      for (let at = 0; at < bytes.byteLength; at += chunkSize) {
        const part = bytes.subarray(at, at + chunkSize);
        await file.handle.write(part);
      }
    }
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}
