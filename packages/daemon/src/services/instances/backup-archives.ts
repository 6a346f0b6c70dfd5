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
  /** Host ids in the folder that stand for guest ids from 0. */
  readonly idRange?: IdRange | undefined;
}

/** Makes and reads the tarballs of instance backups, in LXD's layout. */
export interface BackupArchives {
  /** Writes the whole file or none. @throws bad-request for an unknown compression. */
  write(
    target: string,
    content: { readonly index: string; readonly parts: readonly BackupPart[] },
    options: { readonly compression: string; readonly signal?: AbortSignal },
  ): Promise<void>;
  /** Keeps a foreign backup until it is disposed; every entry is checked. @throws bad-request. */
  receive(content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<IncomingBackup>;
  read(path: string): Readable;
  size(path: string): Promise<number>;
  move(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
}

/** A backup that came in. */
export interface IncomingBackup extends AsyncDisposable {
  /** Text of index.yaml. */
  index(): Promise<string>;
  /** Text of a small member; undefined when it is not there. */
  text(member: string): Promise<string | undefined>;
  extract(member: string, target: string, signal?: AbortSignal): Promise<void>;
  /** For members that carry host ids of `idRange`: files get guest ids. */
  extractUnshifted(member: string, target: string, idRange: IdRange, signal?: AbortSignal): Promise<void>;
}
