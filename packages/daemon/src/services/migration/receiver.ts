import { constants } from 'node:fs';
import { lstat, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { parseSize } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type { IdRange, NativeInner, RootOptions, StoragePool, VolumeRef } from '../../drivers/storage/contract.ts';
import { templateEntries } from '../instances/plan/templates.ts';
import { DISK } from '../storage/root-transfer.ts';
import type { DataChannel } from './channels.ts';
import { type Count, counted, counting } from './sender.ts';
import { type Delivery, readDocument } from './session.ts';
import { type Beside, ROOT, Stage, VOLUME } from './stage.ts';
import type { TransferTools } from './tools.ts';
import { metadataIn } from './beside.ts';
import { isNative } from './ways.ts';
import type { IdMapEntry, WireSnapshot } from './wire/messages.ts';

export interface ReceiverOptions {
  readonly tools: TransferTools;
  readonly scratch: string;
}

/** Where a volume arrives. */
export interface Landing {
  readonly pool: StoragePool;
  readonly target: VolumeRef;
  readonly options: RootOptions;
  /** The volume is there and is brought up to date; else it is made. */
  readonly exists: boolean;
  /** Makes a snapshot of what has arrived, or is told of one the pool has `made`; default: the pool's own. */
  readonly keep?: (name: string, made: boolean) => Promise<void>;
}

interface Receiving {
  readonly landing: Landing;
  readonly delivery: Delivery;
  readonly channel: DataChannel;
  readonly signal: AbortSignal;
  readonly count: Count;
}

/** What came beside the root of a container: of the volume itself (`undefined`) and of each snapshot. */
export type Arrived = ReadonlyMap<string | undefined, Beside>;

/** Most small files read beside a root. */
const FILES = ['metadata.yaml'];
const BLOCK = 64 * 1024;
/** Bytes by which other drivers may round sizes up. */
const ROUNDING = 1024 * 1024;
/** Most subvolumes of one volume. */
const SUBVOLUMES = 10_000;

/** Takes volumes with their snapshots; leaves nothing when it fails. */
export class VolumeReceiver {
  readonly #options: ReceiverOptions;

  constructor(options: ReceiverOptions) {
    this.#options = options;
  }

  async receive(receiving: Receiving): Promise<Arrived> {
    const { landing, delivery } = receiving;
    if (isNative(delivery.type.fs)) return this.#native(receiving);
    if (landing.target.contentType !== 'filesystem') {
      await this.#blocks(receiving);
      return new Map();
    }
    await using stage = await Stage.open(this.#options.scratch, this.#options.tools);
    await stage.jail();
    return await this.#trees(receiving, stage, shiftOf(delivery.idmap));
  }

  async #trees(receiving: Receiving, stage: Stage, shift: IdRange | undefined): Promise<Arrived> {
    const { landing, delivery, signal } = receiving;
    const { pool, target } = landing;
    await using undo = new UndoStack();
    const arrived = new Map<string | undefined, Beside>();
    let there = landing.exists;
    for (const part of [...delivery.snapshots.map(({ name }) => name), undefined]) {
      const times = part === undefined && delivery.twice ? 2 : 1;
      const fill = async (path: string): Promise<void> => {
        for (let time = 0; time < times; time++) await this.#tree(receiving, { stage, path, shift });
      };
      if (there) await this.#into(landing, fill);
      else {
        await create(landing, fill);
        undo.add(() => pool.volumes.delete(target));
        there = true;
      }
      if (target.type !== 'custom') arrived.set(part, await this.#beside(stage));
      signal.throwIfAborted();
      if (part !== undefined) await keep(landing, part);
    }
    undo.commit();
    return arrived;
  }

  /** One state over what the folder holds already. */
  async #tree(
    { landing, delivery, channel, signal, count }: Receiving,
    { stage, path, shift }: { readonly stage: Stage; readonly path: string; readonly shift: IdRange | undefined },
  ): Promise<void> {
    const { tools } = this.#options;
    const inside = landing.target.type === 'custom' ? VOLUME : join(VOLUME, ROOT);
    const { features } = delivery.type;
    const take = async (): Promise<void> => {
      const { wire } = counted(channel, count, 'incoming');
      await tools.receiveTree(stage.path, VOLUME, wire, { features, signal });
    };
    if (shift === undefined) {
      const bound = await stage.bind(path, inside, { readOnly: false });
      try {
        await take();
      } finally {
        await tools.unmount(bound);
      }
      return;
    }
    // Files carry the source's host ids: they land beside, and a view with guest ids is taken over.
    await mkdir(join(stage.path, inside), { recursive: true });
    await take();
    // The sender may have put a link in the folder's place: what it leads to is not the volume's.
    if (!(await lstat(join(stage.path, inside))).isDirectory())
      throw errors.badRequest('The other server sent a root file system that is no folder');
    const view = await stage.bind(join(stage.path, inside), 'view', { readOnly: true, unshift: shift });
    try {
      await tools.mirror(view, path, signal);
    } finally {
      await tools.unmount(view);
    }
  }

  async #into({ pool, target, options }: Landing, fill: (path: string) => Promise<void>): Promise<void> {
    if (target.type === 'custom') {
      const path = await pool.volumes.mount(target, options);
      try {
        return await fill(path);
      } finally {
        await pool.volumes.unmount(target);
      }
    }
    const { path } = await pool.roots.mount(target, { ...options, idRange: undefined });
    try {
      await fill(path);
    } finally {
      await pool.roots.unmount(target);
    }
  }

  /** The image's description that came with a root. Whoever sent it may have put links there. */
  async #beside(stage: Stage): Promise<Beside> {
    const folder = join(stage.path, VOLUME);
    const files = new Map<string, string>();
    for (const name of FILES) {
      const text = await this.#options.tools.readSmall(folder, name);
      if (text !== undefined) files.set(name, text);
    }
    for (const name of templateNames(files.get('metadata.yaml'))) {
      const text = await this.#options.tools.readSmall(folder, `templates/${name}`);
      if (text !== undefined) files.set(`templates/${name}`, text);
    }
    return files;
  }

  async #blocks({ landing, delivery, channel, signal, count }: Receiving): Promise<void> {
    const { pool, target, options } = landing;
    await using undo = new UndoStack();
    const size = blockSize(landing, delivery.volumeSize);
    if (!landing.exists) {
      await createBlocks(landing, size);
      undo.add(() => pool.volumes.delete(target));
    }
    const machine = target.type === 'virtual-machine';
    const path = machine
      ? join((await pool.roots.mount(target, options)).path, DISK)
      : await pool.volumes.mount(target, options);
    for (const part of [...delivery.snapshots.map(({ name }) => name), undefined]) {
      await writeBlocks(path, counting(channel.read(), count), { signal, limit: size });
      if (part !== undefined) await keep(landing, part);
    }
    await (machine ? pool.roots.unmount(target) : pool.volumes.unmount(target));
    undo.commit();
  }

  async #native({ landing, delivery, channel, signal, count }: Receiving): Promise<Arrived> {
    const { pool, target, options } = landing;
    if (pool.transfer === undefined) throw errors.internal('The pool has no format of its own');
    const parts = await describedParts(delivery, channel);
    await using receive = await pool.transfer.receive(target, { ...options, refresh: landing.exists });
    for (const { snapshot, inside } of parts) {
      await receive.accept(snapshot, counting(channel.read(), count), {
        signal,
        ...(inside === undefined ? {} : { inside }),
      });
    }
    signal.throwIfAborted();
    await receive.commit();
    for (const { name } of delivery.snapshots) await landing.keep?.(name, true);
    return target.type === 'custom' ? new Map() : await nativeBeside(landing, delivery.snapshots);
  }
}

async function keep({ pool, target, keep: own }: Landing, name: string): Promise<void> {
  if (own === undefined) await pool.snapshots.create(target, name, { running: false });
  else await own(name, false);
}

async function create({ pool, target, options }: Landing, fill: (path: string) => Promise<void>): Promise<void> {
  if (target.type === 'custom') await pool.volumes.createFilled(target, fill, options);
  else await pool.roots.createFilled(target, options, fill);
}

/** Empty blocks of a custom volume, or of a virtual machine's disk. */
async function createBlocks({ pool, target, options }: Landing, size: number | undefined): Promise<void> {
  if (target.type !== 'virtual-machine')
    return pool.volumes.create(target, { ...options, ...(size === undefined ? {} : { size }) });
  const config = { ...options.config, ...(size === undefined ? {} : { size: String(size) }) };
  await pool.roots.createFilled(target, { ...options, config });
}

interface DescribedPart {
  readonly snapshot: string | undefined;
  readonly inside: NativeInner | undefined;
}

/** The streams that follow, in their order. @throws bad-request when they are not those of the delivery. */
async function describedParts({ type, snapshots }: Delivery, channel: DataChannel): Promise<DescribedPart[]> {
  const names = [...snapshots.map(({ name }) => name), undefined];
  if (!type.features.includes('migration_header')) return names.map((snapshot) => ({ snapshot, inside: undefined }));
  const header = (await readDocument(channel)) as { subvolumes?: unknown } | null;
  const list = Array.isArray(header?.subvolumes) ? (header.subvolumes as Record<string, unknown>[]) : [];
  if (list.length > SUBVOLUMES) throw errors.badRequest(`The other server sends more than ${SUBVOLUMES} subvolumes`);
  const byState = Map.groupBy(list, (one) => one?.['snapshot'] ?? '');
  return names.flatMap((name) => {
    const found = (byState.get(name ?? '') ?? []).map(({ path, readonly }) => ({
      snapshot: name,
      inside: innerOf(path, readonly === true),
    }));
    const [first] = found;
    if (first === undefined || first.inside !== undefined)
      throw errors.badRequest('The other server did not describe the volume it sends');
    return found;
  });
}

/** Undefined for the volume itself. */
function innerOf(path: unknown, readOnly: boolean): NativeInner | undefined {
  if (typeof path !== 'string' || !path.startsWith('/'))
    throw errors.badRequest('The other server sent a path that is none');
  if (path === '/') return undefined;
  const inner = path.slice(1);
  if (inner.split('/').some((part) => part === '' || part === '.' || part === '..') || inner.includes('\0'))
    throw errors.badRequest('The other server sent a path that leaves the volume');
  return { path: inner, readOnly };
}

/** LXD keeps the image's description in the volume itself. */
async function nativeBeside({ pool, target }: Landing, snapshots: readonly WireSnapshot[]): Promise<Arrived> {
  const arrived = new Map<string | undefined, Beside>();
  if (pool.recovery === undefined) return arrived;
  for (const part of [undefined, ...snapshots.map(({ name }) => name)]) {
    const ref = part === undefined ? target : { ...target, snapshot: part };
    const files = new Map<string, string>();
    const text = await pool.recovery.read(ref, 'metadata.yaml');
    if (text !== undefined) files.set('metadata.yaml', text);
    for (const name of templateNames(text)) {
      const template = await pool.recovery.read(ref, `templates/${name}`);
      if (template !== undefined) files.set(`templates/${name}`, template);
    }
    arrived.set(part, files);
  }
  return arrived;
}

/** Files that a metadata.yaml names as templates. */
function templateNames(text: string | undefined): string[] {
  const names = Object.values(templateEntries(metadataIn(text))).map(({ template }) => template);
  return [...new Set(names)].filter((name) => name !== '' && !name.includes('/') && !name.startsWith('.'));
}

/** The range of host ids that the files carry. @throws bad-request for a map of several ranges. */
export function shiftOf(idmap: readonly IdMapEntry[]): IdRange | undefined {
  if (idmap.length === 0) return undefined;
  const range = (entries: readonly IdMapEntry[]): IdMapEntry | undefined =>
    entries.length === 1 ? entries[0] : undefined;
  const users = range(idmap.filter(({ isUid }) => isUid));
  const groups = range(idmap.filter(({ isGid }) => isGid));
  if (
    users === undefined ||
    groups === undefined ||
    users.guestId !== 0 ||
    groups.guestId !== 0 ||
    users.hostId !== groups.hostId ||
    users.range !== groups.range
  ) {
    throw errors.badRequest(
      'The files of the instance carry ids of several ranges, which this server cannot take over',
    );
  }
  return { base: users.hostId, size: users.range };
}

/** Bytes a block volume may have: what was asked for counts against limits. @throws bad-request when more is announced. */
function blockSize({ options }: Landing, announced: number | undefined): number | undefined {
  const asked = parseSize(options.config?.['size'] ?? '');
  const wanted = asked.ok && asked.value > 0 ? asked.value : undefined;
  if (announced !== undefined && !(Number.isSafeInteger(announced) && announced >= 0))
    throw errors.badRequest('The other server sent a size that is none');
  if (wanted === undefined) return announced;
  if ((announced ?? 0) > wanted + ROUNDING)
    throw errors.badRequest(`The volume of the other server has ${announced} bytes, more than the size asked for`);
  return Math.max(wanted, announced ?? 0);
}

/**
 * Over the content of an existing file or device; runs of zeros become holes where there can be some.
 * @throws bad-request when more than `limit` bytes come.
 */
async function writeBlocks(
  path: string,
  content: Readable,
  { signal, limit = Number.POSITIVE_INFINITY }: { readonly signal: AbortSignal; readonly limit: number | undefined },
): Promise<void> {
  await using file = await open(path, constants.O_WRONLY | constants.O_CREAT, 0o600);
  const isFile = (await file.stat()).isFile();
  if (isFile) await file.truncate(0);
  const zeros = Buffer.alloc(BLOCK);
  let at = 0;
  for await (const chunk of content as AsyncIterable<Buffer>) {
    signal.throwIfAborted();
    if (at + chunk.length > limit) throw errors.badRequest('The other server sent more than the volume holds');
    const empty = isFile && chunk.length <= BLOCK && zeros.subarray(0, chunk.length).equals(chunk);
    for (let done = 0; !empty && done < chunk.length; ) {
      done += (await file.write(chunk, done, chunk.length - done, at + done)).bytesWritten;
    }
    at += chunk.length;
  }
  if (isFile) await file.truncate(at);
  await file.sync();
}
