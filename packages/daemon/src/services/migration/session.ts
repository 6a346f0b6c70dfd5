import { errors, isKeelsonError } from '../../core/errors.ts';
import type { DataChannel } from './channels.ts';
import type { Peer } from './peer.ts';
import {
  type CriuType,
  decodeControl,
  decodeHeader,
  encodeHeader,
  failureIn,
  type FsType,
  type MigrationHeader,
  type WireSnapshot,
} from './wire/messages.ts';
import { isNative } from './ways.ts';
import { chooseType, offerOf, type TransferType } from './wire/negotiate.ts';

/** Version of the description that goes before the content. */
const INDEX_VERSION = 1;
/** Milliseconds that the other side may take for each step before content flows. */
const STEP = 120_000;
/** Most snapshots of one volume. */
const SNAPSHOTS = 10_000;
/** Bytes a description may have. */
const INDEX_LIMIT = 16 * 1024 * 1024;

/** What both sides agreed on. */
export interface Agreement {
  readonly type: TransferType;
  /** Only what the target lacks travels. */
  readonly refresh: boolean;
  /** Names of the snapshots that travel, oldest first. */
  readonly snapshots: readonly string[];
  /** By the name of each part, the volume itself undefined: an earlier snapshot that the target then has. */
  readonly parents: ReadonlyMap<string | undefined, string>;
}

/** What a source has to say and to send. */
export interface Outgoing {
  /** Ways the content can travel, the preferred one first. */
  readonly types: readonly TransferType[];
  readonly fallback: FsType;
  /** Oldest first. */
  readonly snapshots: readonly WireSnapshot[];
  /** Set for containers: what the files' ids mean, and that no state of processes follows. */
  readonly container: boolean;
  /** Bytes of a block volume. */
  readonly volumeSize?: number;
  /** The description, for the snapshots that travel. */
  index(snapshots: readonly string[]): unknown;
  send(agreement: Agreement, channel: DataChannel, signal: AbortSignal): Promise<void>;
}

/** The source's part. @throws what went wrong here, or bad-request with what the target says went wrong there. */
export async function runSource(peer: Peer, outgoing: Outgoing, signal: AbortSignal): Promise<void> {
  await guarded(peer, signal, async () => {
    const offer: MigrationHeader = {
      ...offerOf(outgoing.types),
      idmap: [],
      snapshotNames: outgoing.snapshots.map(({ name }) => name),
      snapshots: outgoing.snapshots,
      ...(outgoing.container ? { predump: false } : {}),
      volumeSize: outgoing.volumeSize,
      indexHeaderVersion: INDEX_VERSION,
    };
    await peer.control.send(encodeHeader(offer));
    const answer = await receiveHeader(peer);
    const wanted = new Set(answer.refresh === true ? answer.snapshotNames : offer.snapshotNames);
    const snapshots = offer.snapshotNames.filter((name) => wanted.has(name));
    const agreement: Agreement = {
      type: chooseType(answer, outgoing.fallback, outgoing.types),
      refresh: answer.refresh === true,
      snapshots,
      parents: parentsOf(offer.snapshotNames, new Set([...snapshots, ...(answer.known ?? [])])),
    };
    await withVerdict(peer, signal, async (stop) => {
      const refresh = await inTime(
        sendIndex(peer.data, answer.indexHeaderVersion ?? 0, outgoing.index(agreement.snapshots)),
      );
      await outgoing.send({ ...agreement, refresh: refresh ?? agreement.refresh }, peer.data, stop);
    });
  });
}

/** What a target wants to know, and what it takes. */
export interface Incoming {
  /** Ways this side can take the content, the preferred one first; `offer` may rule some out. */
  types(offer: MigrationHeader): readonly TransferType[];
  readonly fallback: FsType;
  readonly refresh: boolean;
  /** The snapshots of the offer that shall travel. */
  wanted(offered: readonly WireSnapshot[]): readonly WireSnapshot[];
  /** Snapshots of the offer that are here with the same content, for a refresh in a driver's own format. */
  known?(offered: readonly WireSnapshot[]): readonly string[];
  /** Takes the content; the source is told that all is well when it resolves. */
  receive(delivery: Delivery, channel: DataChannel, signal: AbortSignal): Promise<void>;
}

/** What will come. */
export interface Delivery {
  readonly type: TransferType;
  readonly refresh: boolean;
  /** All of the source, oldest first. */
  readonly offered: readonly WireSnapshot[];
  /** Those that come. */
  readonly snapshots: readonly WireSnapshot[];
  /** A guest runs at the source: the volume comes twice, the second time with what changed meanwhile. */
  readonly twice: boolean;
  readonly idmap: MigrationHeader['idmap'];
  readonly volumeSize: number | undefined;
  /** The source's description; undefined from one that has none. */
  readonly index: unknown;
}

/** The target's part. @throws what went wrong here, or bad-request with what the source says went wrong there. */
export async function runTarget(peer: Peer, incoming: Incoming, signal: AbortSignal): Promise<void> {
  await guarded(peer, signal, async () => {
    const offer = await receiveHeader(peer);
    const type = chooseType(offer, incoming.fallback, incoming.types(offer));
    const snapshots = incoming.wanted(offeredSnapshots(offer));
    const criu: CriuType | undefined = offer.criu === 'none' ? 'none' : undefined;
    const version = Math.min(offer.indexHeaderVersion ?? 0, INDEX_VERSION);
    const answer: MigrationHeader = {
      ...offerOf([type]),
      criu,
      idmap: [],
      snapshotNames: snapshots.map(({ name }) => name),
      snapshots,
      predump: false,
      refresh: incoming.refresh,
      indexHeaderVersion: version,
      known: isNative(type.fs) ? incoming.known?.(offer.snapshots) : undefined,
    };
    await peer.control.send(encodeHeader(answer));
    await aborting(peer, signal, async (stop, fail) => {
      void watchSource(peer).catch(fail);
      const index = version > 0 ? await inTime(receiveIndex(peer.data, incoming.refresh)) : undefined;
      const twice = criu === 'none' && type.fs === 'rsync';
      const delivery = { type, refresh: incoming.refresh, offered: offer.snapshots, snapshots, twice };
      await incoming.receive({ ...delivery, idmap: offer.idmap, volumeSize: offer.volumeSize, index }, peer.data, stop);
    });
  });
  await peer.conclude();
}

/** The nearest earlier one among those that the target has by then. `names`: of all snapshots, oldest first. */
export function parentsOf(
  names: readonly string[],
  there: ReadonlySet<string>,
): ReadonlyMap<string | undefined, string> {
  const parents = new Map<string | undefined, string>();
  let last: string | undefined;
  for (const name of [...names, undefined]) {
    if (last !== undefined) parents.set(name, last);
    if (name !== undefined && there.has(name)) last = name;
  }
  return parents;
}

/** Old sources send names alone. */
function offeredSnapshots(offer: MigrationHeader): readonly WireSnapshot[] {
  if (offer.snapshots.length > SNAPSHOTS)
    throw errors.badRequest(`The other server offers more than ${SNAPSHOTS} snapshots`);
  if (offer.snapshots.length === offer.snapshotNames.length) return offer.snapshots;
  throw errors.badRequest('The other server does not describe its snapshots; copy without them');
}

async function receiveHeader(peer: Peer): Promise<MigrationHeader> {
  const data = await inTime(peer.control.receive());
  const failure = failureIn(data);
  if (failure !== undefined) throw errors.badRequest(failure.message);
  return decodeHeader(data);
}

/** @throws bad-request when the other side is silent for too long. */
async function inTime<T>(step: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(errors.badRequest('The other server does not answer')), STEP);
  try {
    return await Promise.race([step, late]);
  } finally {
    clearTimeout(timer);
    step.catch(() => undefined); // it ends with the connection
  }
}

/** Does `work` and has the target's word that it has all; its bad news ends the work. */
async function withVerdict(peer: Peer, signal: AbortSignal, work: (stop: AbortSignal) => Promise<void>): Promise<void> {
  const verdict = peer.control.receive().then(decodeControl);
  await aborting(peer, signal, async (stop, fail) => {
    verdict.then(({ success, message }) => void (success || fail(errors.badRequest(message))), fail);
    await work(stop);
    await verdict;
  });
}

/** A source says nothing unless it failed. */
async function watchSource(peer: Peer): Promise<never> {
  for (;;) {
    const { success, message } = decodeControl(await peer.control.receive());
    if (!success) throw errors.badRequest(message);
  }
}

/** Runs `work`; what `fail` is called with, or an aborted `signal`, aborts it and is thrown. */
async function aborting(
  peer: Peer,
  signal: AbortSignal,
  work: (stop: AbortSignal, fail: (error: unknown) => void) => Promise<void>,
): Promise<void> {
  const failure = new AbortController();
  const stop = AbortSignal.any([signal, failure.signal]);
  const { promise: stopped, reject } = Promise.withResolvers<never>();
  const onStop = (): void => reject(stop.reason);
  stop.addEventListener('abort', onStop, { once: true });
  const working = work(stop, (error) => failure.abort(error));
  try {
    await Promise.race([working, stopped]);
  } catch (error) {
    // What was begun is taken down before anybody hears of the end.
    failure.abort(error);
    peer.cut();
    await Promise.allSettled([working]);
    throw error;
  } finally {
    stop.removeEventListener('abort', onStop);
  }
}

/** On failure the peer is told why. */
async function guarded(peer: Peer, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  const cut = (): void => peer.cut();
  signal.addEventListener('abort', cut, { once: true });
  try {
    signal.throwIfAborted();
    await work();
  } catch (error) {
    await peer.conclude(error);
    throw signal.aborted
      ? signal.reason
      : isKeelsonError(error)
        ? error
        : errors.internal('The transfer failed', error);
  } finally {
    signal.removeEventListener('abort', cut);
  }
}

/** Resolves with what the target says about refreshing. */
async function sendIndex(channel: DataChannel, version: number, index: unknown): Promise<boolean | undefined> {
  if (version === 0) return undefined;
  await writeAll(channel, index);
  const answer = await readDocument(channel);
  const { StatusCode: code, Error: text, Refresh: refresh } = (answer ?? {}) as Record<string, unknown>;
  if (code !== 200) throw errors.badRequest(`Failed negotiating migration options: ${String(text)}`);
  return typeof refresh === 'boolean' ? refresh : undefined;
}

async function receiveIndex(channel: DataChannel, refresh: boolean): Promise<unknown> {
  const index = await readDocument(channel);
  await writeAll(channel, { StatusCode: 200, Error: '', Refresh: refresh });
  return index;
}

/** The document in the next frame. @throws bad-request */
export async function readDocument(channel: DataChannel): Promise<unknown> {
  const text = (await channel.readAll(INDEX_LIMIT)).toString('utf8');
  try {
    return JSON.parse(text);
  } catch (error) {
    throw errors.badRequest('The other server sent a description that cannot be read', error);
  }
}

/** One document as one frame. */
export async function writeAll(channel: DataChannel, document: unknown): Promise<void> {
  const target = channel.write();
  const failed = new Promise<never>((_resolve, reject) => {
    target.once('error', reject);
  });
  await Promise.race([
    failed,
    new Promise<void>((resolve) => target.end(Buffer.from(JSON.stringify(document)), () => resolve())),
  ]);
}
