import type { Readable } from 'node:stream';
import type { IdRange } from '../../drivers/instance/contract.ts';
import type { ProgressOptions } from '../../drivers/storage/contract.ts';
import type { ImageRecord } from '../../state/records/image.ts';

/** Bytes and text of a checked image. */
export interface ImageContent {
  readonly type: 'container' | 'virtual-machine';
  /** Text of metadata.yaml. */
  readonly metadata: string;
  /** Text of the files in templates/, by file name. */
  readonly templates: ReadonlyMap<string, string>;
}

/** `main`: unified image or metadata; `root`: squashfs or tar; `disk`: a virtual machine's `rootfs.img`. */
export type ImagePart = 'main' | 'root' | 'disk';

/** Files of an image on their way in; gone with `dispose` unless kept. */
export interface IncomingImage extends AsyncDisposable {
  readonly size: number;
  /** True once a root or disk part came. */
  readonly split: boolean;
  /** Takes one part, the main one first. @throws too-large, the signal's reason. */
  receive(
    part: ImagePart,
    source: AsyncIterable<Uint8Array>,
    options?: { readonly signal?: AbortSignal; readonly onBytes?: (total: number) => void },
  ): Promise<void>;
  /** SHA-256 over all parts in the order they came; no part may follow. */
  fingerprint(): string;
  /** @throws bad-request naming the entry that is refused. */
  inspect(signal?: AbortSignal): Promise<ImageContent & { readonly unpackedBytes: number }>;
  /** Puts the files in place, durably. */
  keep(fingerprint: string, content: ImageContent & { readonly unpackedBytes: number }): Promise<void>;
}

export interface StoredPart {
  readonly path: string;
  readonly size: number;
  /** `.tar.xz`, `.squashfs`, … by content. */
  readonly suffix: string;
}

/** What images need from the host for their files. */
export interface ImageFiles {
  begin(): Promise<IncomingImage>;
  /** @throws not-found when the files are gone. */
  part(fingerprint: string, part: 'main' | 'root'): Promise<StoredPart>;
  read(part: StoredPart): Readable;
  details(
    fingerprint: string,
    type: ImageRecord['type'],
    split: boolean,
  ): Promise<Pick<ImageContent, 'metadata' | 'templates'>>;
  /** `rootfs/` of a container or `root.img` of a virtual machine into an existing empty folder. */
  unpack(image: ImageRecord, target: string, options: ProgressOptions): Promise<void>;
  remove(fingerprint: string): Promise<void>;
  /** Removes files no record knows. Returns their names. */
  sweep(known: (fingerprint: string) => boolean): Promise<readonly string[]>;
}

/** What images need from storage. */
export interface ImageVolumes {
  /** Removes the image from every pool (later, where a root still stands on it). Absent: no effect. */
  removeImageVolumes(fingerprint: string): Promise<void>;
}

/** The root file system an image is made of. */
export interface PublishSource extends AsyncDisposable {
  /** Host folder of `/`. */
  readonly path: string;
  /** Set when the files carry host ids of this range. */
  readonly idRange: IdRange | undefined;
}

/** What images need from instances, to make an image of one. */
export interface ImageInstances {
  /** @throws not-found with LXD's text, bad-request while it runs. */
  describe(
    project: string,
    name: string,
    snapshot: string | undefined,
  ): {
    readonly type: ImageRecord['type'];
    readonly architecture: string;
    /** Of the image it came from: `image.*` without the prefix. */
    readonly properties: Readonly<Record<string, string>>;
  };
  /** Mounted until disposed. */
  open(project: string, name: string, snapshot: string | undefined): Promise<PublishSource>;
  /** `templates` part of metadata.yaml and the template files the instance has. */
  templates(
    project: string,
    name: string,
    snapshot: string | undefined,
  ): Promise<{ readonly templates: unknown; readonly files: ReadonlyMap<string, string> }>;
}

/** Makes image archives. */
export interface ImagePacker {
  /**
   * Streams a unified image: metadata.yaml, templates/, rootfs/. `compression` is one of `compressions`.
   * The stream fails when the packing does.
   */
  pack(
    source: PublishSource,
    head: { readonly metadata: string; readonly templates: ReadonlyMap<string, string> },
    options: { readonly compression: string; readonly signal?: AbortSignal },
  ): AsyncIterable<Uint8Array>;
}

/** Values of `compression_algorithm`. */
export const compressions: readonly string[] = ['none', 'gzip', 'bzip2', 'lzma', 'xz', 'zstd', 'squashfs'];

/** One file of an image on its way from another server. */
export interface RemotePart {
  readonly part: ImagePart;
  /** Name to remember; undefined when the source gives none. */
  readonly filename: string | undefined;
  readonly body: AsyncIterable<Uint8Array>;
}

/** An image found at a source, before its files are read. */
export interface RemoteImage {
  /** Undefined when only the download tells. */
  readonly fingerprint: string | undefined;
  /** Bytes of all files, when known. */
  readonly size: number | undefined;
  /** Laid over those of metadata.yaml. */
  readonly properties: Readonly<Record<string, string>>;
  /** The files, main one first; each must be read before the next is asked for. */
  open(signal: AbortSignal | undefined): AsyncIterable<RemotePart>;
}

export interface RemoteRequest {
  readonly protocol: 'lxd' | 'simplestreams' | 'direct';
  /** Server URL; for `direct` the image's. */
  readonly server: string;
  /** Alias or fingerprint (prefix). */
  readonly name: string;
  /** PEM the server must present; empty: the system's authorities decide. */
  readonly certificate: string;
  readonly secret: string;
  readonly project: string;
  readonly type: ImageRecord['type'];
}

/** Finds images elsewhere. */
export interface ImageRemotes {
  /** @throws bad-request / not-found naming server and image. */
  find(request: RemoteRequest, signal: AbortSignal | undefined): Promise<RemoteImage>;
}
