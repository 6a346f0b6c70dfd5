import type { IncomingHttpHeaders } from 'node:http';
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import { errors } from '../../core/errors.ts';
import type { InstanceRecord, InstanceType } from '../../state/records/instance.ts';
import type { ChangeRequest } from './changer.ts';
import type { InstanceContext } from './context.ts';
import type { GuestFileInfo, GuestFileOwner, GuestFiles, GuestTree } from './guest-files.ts';

/** Links are told by their target; a longer one is refused. */
const LINK_LIMIT = 4096;

export type FoundFile =
  | {
      readonly kind: 'directory';
      readonly names: readonly string[];
      readonly headers: Readonly<Record<string, string>>;
    }
  | { readonly kind: 'file'; readonly body: Readable | string; readonly headers: Readonly<Record<string, string>> };

/** Files in instances, running or not. */
export class InstanceFileService {
  readonly #context: InstanceContext;
  readonly #files: GuestFiles;

  constructor(context: InstanceContext) {
    this.#context = context;
    this.#files = context.deps.files;
  }

  /** `GET …/files?path=`. @throws not-found */
  async get(project: string, name: string, path: string, request: ChangeRequest = {}): Promise<FoundFile> {
    const record = this.#context.require(project, name, request.type);
    const target = checkPath(path);
    const use = await this.#open(record);
    let open = true;
    const close = async (): Promise<void> => {
      if (!open) return;
      open = false;
      await use.close();
    };
    try {
      const info = await this.#files.info(use.tree, target);
      const headers = fileHeaders(info);
      const found = await this.#content(use.tree, target, info, headers);
      this.#context.lifecycle('instance-file-retrieved', record, request, { context: { path } });
      if (found.kind === 'file' && found.body instanceof Readable) {
        found.body.once('close', () => void close());
      } else await close();
      return found;
    } catch (error) {
      await close();
      throw error;
    }
  }

  async #content(
    tree: GuestTree,
    path: string,
    info: GuestFileInfo,
    headers: Record<string, string>,
  ): Promise<FoundFile> {
    if (info.kind === 'directory') return { kind: 'directory', names: await this.#files.list(tree, path), headers };
    const named = { ...headers, 'Content-Disposition': `inline;filename=${headerText(basename(path))}` };
    if (info.kind === 'symlink') return { kind: 'file', body: await this.#files.readlink(tree, path), headers: named };
    return { kind: 'file', body: await this.#files.read(tree, path), headers: named };
  }

  /** `HEAD …/files?path=`. */
  async head(project: string, name: string, path: string, type?: InstanceType): Promise<Record<string, string>> {
    const record = this.#context.require(project, name, type);
    const target = checkPath(path);
    return this.#with(record, async (tree) => fileHeaders(await this.#files.info(tree, target)));
  }

  /** `POST …/files?path=` with what the `X-LXD-*` headers say. */
  async post(project: string, name: string, upload: Upload, request: ChangeRequest = {}): Promise<void> {
    const record = this.#context.require(project, name, request.type);
    const path = checkPath(upload.path);
    const wanted = parseHeaders(upload.headers);
    await this.#with(record, async (tree) => {
      if (wanted.type === 'directory') await this.#files.mkdir(tree, path, wanted.owner);
      else if (wanted.type === 'symlink')
        await this.#files.symlink(tree, path, await readLink(upload.body), wanted.owner);
      else await this.#files.write(tree, path, upload.body, { ...wanted.owner, append: wanted.append });
    });
    this.#context.lifecycle('instance-file-pushed', record, request, { context: { path: upload.path } });
  }

  /** `DELETE …/files?path=`. */
  async delete(project: string, name: string, path: string, request: ChangeRequest = {}): Promise<void> {
    const record = this.#context.require(project, name, request.type);
    const target = checkPath(path);
    await this.#with(record, (tree) => this.#files.remove(tree, target));
    this.#context.lifecycle('instance-file-deleted', record, request, { context: { path } });
  }

  async #with<T>(record: InstanceRecord, work: (tree: GuestTree) => Promise<T>): Promise<T> {
    const use = await this.#open(record);
    try {
      return await work(use.tree);
    } finally {
      await use.close();
    }
  }

  /** The guest's `/`: through its init while it runs, else its mounted root. */
  async #open(record: InstanceRecord): Promise<{ readonly tree: GuestTree; close(): Promise<void> }> {
    const { deps } = this.#context;
    const effective = this.#context.expand(record);
    const ref = this.#context.ref(record);
    const root = this.#context.rootVolume(record, effective);
    const { pid } = deps.driver.state(ref.key);
    if (pid > 0) {
      return { tree: { path: `/proc/${pid}/root`, shift: root.idRange }, close: () => Promise.resolve() };
    }
    const { mount, release } = await this.#context.roots.use(root);
    return { tree: { path: mount.path, shift: mount.ids === 'shifted' ? root.idRange : undefined }, close: release };
  }
}

export interface Upload {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readable;
}

/** @throws bad-request without a path. */
function checkPath(path: string): string {
  if (path === '') throw errors.badRequest('Missing path argument');
  if (path.includes('\0')) throw errors.badRequest('A path cannot hold a NUL character');
  return path.startsWith('/') ? path : `/${path}`;
}

function fileHeaders(info: GuestFileInfo): Record<string, string> {
  return {
    'X-LXD-uid': String(info.uid),
    'X-LXD-gid': String(info.gid),
    'X-LXD-mode': `0${(info.mode & 0o777).toString(8).padStart(3, '0')}`,
    'X-LXD-modified': goTime(info.modified),
    'X-LXD-type': info.kind,
  };
}

/** As Go prints a UTC time without fractions. */
function goTime(date: Date): string {
  return `${date.toISOString().slice(0, 19).replace('T', ' ')} +0000 UTC`;
}

function headerText(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '_');
}

interface WantedFile {
  readonly type: 'file' | 'directory' | 'symlink';
  readonly append: boolean;
  readonly owner: GuestFileOwner;
}

/** @throws bad-request with LXD's text. */
function parseHeaders(headers: IncomingHttpHeaders): WantedFile {
  const text = (name: string): string => {
    const value = headers[name];
    return (Array.isArray(value) ? value[0] : value) ?? '';
  };
  const type = text('x-lxd-type') === '' ? 'file' : text('x-lxd-type');
  if (type !== 'file' && type !== 'directory' && type !== 'symlink') throw errors.badRequest(`Bad file type: ${type}`);
  const write = text('x-lxd-write') === '' ? 'overwrite' : text('x-lxd-write');
  if (write !== 'append' && write !== 'overwrite') throw errors.badRequest(`Bad file write mode: ${write}`);
  const decimal = (value: string): number | undefined => (/^\d{1,10}$/.test(value) ? Number(value) : undefined);
  const mode = text('x-lxd-mode');
  return {
    type,
    append: write === 'append',
    owner: {
      uid: decimal(text('x-lxd-uid')),
      gid: decimal(text('x-lxd-gid')),
      mode: /^[0-7]{1,5}$/.test(mode) ? Number.parseInt(mode, 8) & 0o7777 : undefined,
    },
  };
}

async function readLink(body: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > LINK_LIMIT) throw errors.badRequest('The target of a symlink is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
