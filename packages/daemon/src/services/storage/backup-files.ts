import type { Readable } from 'node:stream';
import { join } from 'node:path';
import { errors } from '../../core/errors.ts';
import type { StorageVolumeBackupRecord } from '../../state/records/storage.ts';
import type { IncomingBackup } from './volume-importer.ts';

/** One member of a backup, or a folder of them. */
export interface VolumeArchivePart {
  readonly name: string;
  /** Host folder or file; unused with `text` and `open`. */
  readonly source: string;
  readonly block: boolean;
  readonly text?: string;
  /** Content of unknown length. */
  readonly open?: () => Promise<Readable>;
}

/** Makes and reads the archives; the host's part of backups. */
export interface VolumeArchiver {
  write(
    target: string,
    content: {
      readonly index: string;
      readonly parts: readonly VolumeArchivePart[];
    },
    options: {
      readonly compression: string;
      readonly signal?: AbortSignal;
      readonly onBytes?: (bytes: number) => void;
    },
  ): Promise<number>;
  receive(content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<IncomingBackup>;
  receiveFile(
    content: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<{ readonly path: string } & AsyncDisposable>;
  read(path: string): Readable;
  size(path: string): Promise<number>;
  move(from: string, to: string): Promise<void>;
  /** No effect when there is nothing at `from`. */
  moveFolder(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
}

type BackupName = Pick<StorageVolumeBackupRecord, 'pool' | 'project' | 'volume' | 'name'>;

/** Where the files of volume backups lie: `backups/custom/<pool>/<project>_<volume>/<backup>`, as LXD has them. */
export class VolumeBackupFiles {
  readonly #folder: string;
  readonly #archiver: VolumeArchiver;

  constructor(folder: string, archiver: VolumeArchiver) {
    this.#folder = folder;
    this.#archiver = archiver;
  }

  write(backup: BackupName, ...rest: Tail<Parameters<VolumeArchiver['write']>>): Promise<number> {
    return this.#archiver.write(this.#path(backup), ...rest);
  }

  receive(content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<IncomingBackup> {
    return this.#archiver.receive(content, signal);
  }

  receiveFile(
    content: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<{ readonly path: string } & AsyncDisposable> {
    return this.#archiver.receiveFile(content, signal);
  }

  /** @throws internal when the file is not all that was written. */
  async open(backup: BackupName & { readonly bytes?: number }): Promise<{ body: Readable; size: number }> {
    const size = await this.#archiver.size(this.#path(backup));
    checkWhole(backup, size);
    return { body: this.#archiver.read(this.#path(backup)), size };
  }

  exists(backup: BackupName): Promise<boolean> {
    return this.#archiver.size(this.#path(backup)).then(
      () => true,
      () => false,
    );
  }

  move(from: BackupName, to: BackupName): Promise<void> {
    return this.#archiver.move(this.#path(from), this.#path(to));
  }

  /** All files of one volume; nothing when there are none, or when they are there already. */
  moveAll(from: Omit<BackupName, 'name'>, to: Omit<BackupName, 'name'>): Promise<void> {
    return this.#archiver.moveFolder(this.#folderOf(from), this.#folderOf(to));
  }

  remove(backup: BackupName): Promise<void> {
    return this.#archiver.remove(this.#path(backup));
  }

  #folderOf({ pool, project, volume }: Omit<BackupName, 'name'>): string {
    return join(this.#folder, 'custom', pool, `${project}_${volume}`);
  }

  #path(backup: BackupName): string {
    return join(this.#folderOf(backup), backup.name);
  }
}

/** A host that went down right after a backup was made may have lost the end of it. @throws internal. */
export function checkWhole({ name, bytes }: { readonly name: string; readonly bytes?: number }, size: number): void {
  if (bytes !== undefined && bytes !== size)
    throw errors.internal(`Backup "${name}" is damaged: it has ${size} of ${bytes} bytes; make it again`);
}

type Tail<T extends readonly unknown[]> = T extends [unknown, ...infer Rest] ? Rest : never;
