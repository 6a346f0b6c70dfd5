import type { Image, ImageAliasesEntry, ImageAliasesPost, ImagePut, ImagesPost } from '@keelson/api';
import type { Readable } from 'node:stream';
import type { Precondition } from '../../core/precondition.ts';
import type { RecordList } from '../../core/record-list.ts';
import type { Requestor } from '../events/contract.ts';
import type { StartedOperation } from '../operations/contract.ts';
import type { ImagePart } from './ports.ts';

/** Who changes something, and what they demand of the state they change. */
export interface ChangeOptions {
  readonly requestor?: Requestor;
  readonly precondition?: Precondition;
}

/** Who looks: `trusted` callers see every image of the project, others public ones and the one their secret opens. */
export interface ImageViewer {
  readonly trusted: boolean;
  readonly secret?: string;
  readonly requestor?: Requestor;
}

/** What an upload says about the image in its headers. */
export interface UploadOptions {
  /** Expected fingerprint; empty: any. */
  readonly fingerprint: string;
  readonly filename: string;
  readonly public: boolean;
  readonly properties: Readonly<Record<string, string>>;
  readonly profiles: readonly string[];
  readonly aliases: readonly string[];
  readonly signal: AbortSignal;
  readonly requestor?: Requestor;
}

export interface UploadPart {
  readonly part: ImagePart;
  readonly filename: string | undefined;
  readonly body: AsyncIterable<Uint8Array>;
}

/** What an export sends: one file, or the two of a split image. */
export interface ImageExport {
  readonly fingerprint: string;
  readonly main: ExportedFile;
  readonly root: (ExportedFile & { readonly disk: boolean }) | undefined;
}

export interface ExportedFile {
  readonly size: number;
  readonly filename: string;
  open(): Readable;
}

/** Images as the API needs them. Fingerprints may be given by any unique prefix. Unknown: not-found `Image not found`. */
export interface Images {
  list(project: string, viewer: ImageViewer, options: { readonly allProjects: boolean }): RecordList;
  get(project: string, fingerprint: string, viewer: ImageViewer): { image: Image; etag: readonly unknown[] };
  export(project: string, fingerprint: string, viewer: ImageViewer): Promise<ImageExport>;
  /** Takes the bytes in before it resolves; the operation checks and stores them. */
  upload(project: string, parts: AsyncIterable<UploadPart>, options: UploadOptions): Promise<StartedOperation>;
  /** From an instance, a snapshot, a URL or another server. */
  create(project: string, body: ImagesPost, options: CreateOptions): Promise<StartedOperation>;
  put(project: string, fingerprint: string, body: ImagePut, options?: ChangeOptions): Promise<void>;
  patch(project: string, fingerprint: string, body: ImagePut, options?: ChangeOptions): Promise<void>;
  delete(project: string, fingerprint: string, options?: ChangeOptions): StartedOperation;
  /** A token operation whose secret opens the image to an untrusted caller, once. */
  secret(project: string, fingerprint: string, options?: ChangeOptions): StartedOperation;
  /** Downloads a newer version from where the image came. */
  refresh(project: string, fingerprint: string, options?: ChangeOptions): StartedOperation;
}

export interface CreateOptions {
  readonly requestor?: Requestor;
  /** The caller may make the daemon connect to other servers. */
  readonly mayFetch: boolean;
}

/** Aliases of images. Unknown: not-found `Image alias not found`. */
export interface ImageAliases {
  list(project: string): RecordList;
  get(project: string, name: string, trusted: boolean): { alias: ImageAliasesEntry; etag: readonly unknown[] };
  create(project: string, body: ImageAliasesPost, options?: ChangeOptions): Promise<string>;
  put(project: string, name: string, body: AliasChange, options?: ChangeOptions): Promise<void>;
  patch(project: string, name: string, body: AliasChange, options?: ChangeOptions): Promise<void>;
  rename(project: string, name: string, newName: string, options?: ChangeOptions): Promise<string>;
  delete(project: string, name: string, options?: ChangeOptions): Promise<void>;
}

export interface AliasChange {
  readonly description?: string;
  readonly target?: string;
}
