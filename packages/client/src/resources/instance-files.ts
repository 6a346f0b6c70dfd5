import type { CallOptions, ModelContext } from '../model.ts';
import type { RequestBody, TransportResponse } from '../transport/types.ts';
import { Download, serverHeaders } from './common.ts';

/** What a file of a guest is. */
export interface FileInfo {
  /** Links are not followed. */
  readonly type: 'file' | 'directory' | 'symlink';
  /** Numeric owner in the guest. */
  readonly uid: number;
  /** Numeric group in the guest. */
  readonly gid: number;
  /** Permission bits, for example 0o644. */
  readonly mode: number;
}

/** Owner and mode of a new file. */
export interface PutOptions extends CallOptions {
  /** Numeric owner in the guest; default root. */
  readonly uid?: number;
  /** Numeric group in the guest; default root. */
  readonly gid?: number;
  /** Permission bits, for example 0o644. */
  readonly mode?: number;
  /** Add to the end of an existing file. */
  readonly append?: boolean;
}

/** One of `walk`. */
export interface FoundFile {
  /** Absolute path in the guest. */
  readonly path: string;
  /** What it is. */
  readonly info: FileInfo;
}

/** One of `putAll`; without content it is a folder. */
export interface NewFile extends Omit<PutOptions, 'signal' | 'append'> {
  /** Absolute path in the guest. */
  readonly path: string;
  /** Bytes of a file; nothing makes it a folder. */
  readonly content?: RequestBody;
}

/** Content of a file, and what the file is. */
export class FileDownload extends Download {
  /** Owner, mode, kind. */
  readonly info: FileInfo;

  /** @internal */
  constructor(response: TransportResponse, info: FileInfo) {
    super(response);
    this.info = info;
  }
}

/** `instance.files`: files of the guest by absolute path; works on stopped instances too. */
export class InstanceFiles {
  readonly #context: ModelContext;
  readonly #instance: () => string;

  /** @internal */
  constructor(context: ModelContext, instance: () => string) {
    this.#context = context;
    this.#instance = instance;
  }

  /** Content of a file. `GET /1.0/instances/<name>/files?path=` @throws NotFound */
  async get(path: string, options: CallOptions = {}): Promise<FileDownload> {
    const response = await this.#context.connection.raw('GET', this.#path(), {
      query: { path },
      signal: options.signal,
    });
    return new FileDownload(response, infoOf(response.headers));
  }

  /** Names in a folder. `GET /1.0/instances/<name>/files?path=` @throws NotFound, TypeError when it is no folder */
  async list(path: string, options: CallOptions = {}): Promise<string[]> {
    const request = { query: { path }, signal: options.signal };
    const response = await this.#context.connection.raw('GET', this.#path(), request);
    if (infoOf(response.headers).type !== 'directory') {
      await response.discard();
      throw new TypeError(`${path} is not a folder`);
    }
    return (JSON.parse(await response.text()) as { metadata: string[] | null }).metadata ?? [];
  }

  /** What the file is, without its content. `GET /1.0/instances/<name>/files?path=` @throws NotFound */
  async stat(path: string, options: CallOptions = {}): Promise<FileInfo> {
    const request = { query: { path }, signal: options.signal };
    const response = await this.#context.connection.raw('GET', this.#path(), request);
    await response.discard();
    return infoOf(response.headers);
  }

  /** Writes a file. `POST /1.0/instances/<name>/files?path=` @throws NotFound when its folder is not there */
  async put(path: string, content: RequestBody, options: PutOptions = {}): Promise<void> {
    await this.#post(path, content, 'file', options);
  }

  /** Makes a folder; an existing one is left as it is. `POST /1.0/instances/<name>/files?path=` @throws NotFound */
  async mkdir(path: string, options: PutOptions = {}): Promise<void> {
    await this.#post(path, '', 'directory', options);
  }

  /** Makes a symbolic link at `path` that points to `target`. `POST /1.0/instances/<name>/files?path=` @throws NotFound */
  async symlink(path: string, target: string, options: PutOptions = {}): Promise<void> {
    await this.#post(path, target, 'symlink', options);
  }

  /** Deletes a file or an empty folder. `DELETE /1.0/instances/<name>/files?path=` @throws NotFound */
  async delete(path: string, options: CallOptions = {}): Promise<void> {
    await this.#context.connection.request('DELETE', this.#path(), { query: { path }, signal: options.signal });
  }

  /** Every file below a folder, folders before what is in them. Links are not followed. `GET /1.0/instances/<name>/files?path=` */
  async *walk(path: string, options: CallOptions = {}): AsyncGenerator<FoundFile> {
    for (const name of await this.list(path, options)) {
      const child = `${path.replace(/\/$/, '')}/${name}`;
      const info = await this.stat(child, options);
      yield { path: child, info };
      if (info.type === 'directory') yield* this.walk(child, options);
    }
  }

  /** Writes many files, in their order: folders (`content` undefined) before what is in them. `POST /1.0/instances/<name>/files?path=` */
  async putAll(files: Iterable<NewFile> | AsyncIterable<NewFile>, options: CallOptions = {}): Promise<void> {
    for await (const { path, content, ...how } of files) {
      if (content === undefined) await this.mkdir(path, { ...how, signal: options.signal });
      else await this.put(path, content, { ...how, signal: options.signal });
    }
  }

  async #post(path: string, content: RequestBody, type: FileInfo['type'], options: PutOptions): Promise<void> {
    const headers: Record<string, string> = {
      'Content-Type': 'application/octet-stream',
      ...serverHeaders({
        type,
        write: options.append ? 'append' : 'overwrite',
        uid: options.uid?.toString(),
        gid: options.gid?.toString(),
        mode: options.mode === undefined ? undefined : `0${options.mode.toString(8)}`,
      }),
    };
    await this.#context.connection.request('POST', this.#path(), {
      query: { path },
      raw: content,
      headers,
      signal: options.signal,
    });
  }

  #path(): string {
    return `${this.#instance()}/files`;
  }
}

function infoOf(headers: Readonly<Record<string, string>>): FileInfo {
  const type = headers['x-lxd-type'] ?? headers['x-incus-type'];
  const number = (name: string, radix = 10): number =>
    Number.parseInt(headers[`x-lxd-${name}`] ?? headers[`x-incus-${name}`] ?? '0', radix);
  return {
    type: type === 'directory' || type === 'symlink' ? type : 'file',
    uid: number('uid'),
    gid: number('gid'),
    mode: number('mode', 8),
  };
}
