import type { Readable } from 'node:stream';
import type { IdRange } from '../../drivers/instance/contract.ts';

/** A folder or small file of a backup. */
export interface BackupPart {
  /** Path of the member. */
  readonly name: string;
  /** Host folder; unused with `text`. */
  readonly source: string;
  readonly block: false;
  readonly text?: string;
  /** Content of unknown length, instead of what is at `source`. */
  readonly open?: () => Promise<Readable>;
  /** Host ids in the folder that stand for guest ids from 0. */
  readonly idRange?: IdRange | undefined;
}

/** Makes and reads the tarballs of instance backups, in LXD's layout. */
export interface BackupArchives {
  /** Writes the whole file or none, and tells its bytes. @throws bad-request for an unknown compression. */
  write(
    target: string,
    content: { readonly index: string; readonly parts: readonly BackupPart[] },
    options: {
      readonly compression: string;
      readonly signal?: AbortSignal;
      /** Bytes of the file so far. */
      readonly onBytes?: (bytes: number) => void;
    },
  ): Promise<number>;
  /** Keeps a foreign backup until it is disposed; every entry is checked. @throws bad-request. */
  receive(content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<IncomingBackup>;
  read(path: string): Readable;
  size(path: string): Promise<number>;
  move(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** No effect when there is nothing at `from`. */
  moveFolder(from: string, to: string): Promise<void>;
  removeFolder(path: string): Promise<void>;
}

/** A backup that came in. */
export interface IncomingBackup extends AsyncDisposable {
  /** Whether it holds devices 0,0: on an overlay they hide files instead of being there. */
  readonly whiteouts: boolean;
  /** Text of index.yaml. */
  index(): Promise<string>;
  /** Text of a small member; undefined when it is not there. */
  text(member: string): Promise<string | undefined>;
  extract(member: string, target: string, signal?: AbortSignal): Promise<void>;
  /** Content of a file member. @throws bad-request when it is not in the backup. */
  open(member: string): Promise<Readable>;
  /** A folder member in a scratch folder, with guest ids, while `use` runs. */
  withTree<T>(
    member: string,
    idRange: IdRange | undefined,
    use: (folder: string) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T>;
  /** For members that carry host ids of `idRange`: files get guest ids. */
  extractUnshifted(member: string, target: string, idRange: IdRange, signal?: AbortSignal): Promise<void>;
}
