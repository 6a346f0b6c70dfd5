import type { Operation, Server } from '@keelson/api';
import type { Connection, RequestOptions } from './connection.ts';
import { ClientError } from './errors.ts';
import type { ModelContext } from './model.ts';
import type { WaitForOptions } from './operation-waiter.ts';
import { nameOf, projectOf } from './resources/common.ts';
import type { SocketEvent, WebSocketLike } from './transport/types.ts';

/**
 * How an instance or a volume reaches another server. `pull`: the other server connects to this one; `push`: this one
 * connects to the other; `relay`: both meet in this client, which needs no memory for it; `backup`: as a backup through
 * this client, for servers that cannot migrate.
 */
export type MigrationMode = 'pull' | 'push' | 'relay' | 'backup';

/**
 * Told how far a copy is, as the operations of both servers say it: progress stands in the `metadata` of the record
 * (`fs_progress`, `block_progress`). `side` is the server that says so; of a copy within a server always `target`.
 */
export type CopyProgress = (operation: Operation, side: 'source' | 'target') => void;

/** What one server must know to connect to the other. */
export interface MigrationPeer {
  /** `https://<address>/1.0/operations/<id>` */
  readonly operation: string;
  /** PEM of the server that is connected to. */
  readonly certificate: string;
  readonly secrets: Record<string, string>;
}

/** What the receiving server is told: where to pull from, or to wait for a push. */
export type MigrationOrigin = ({ readonly mode: 'pull' } & MigrationPeer) | { readonly mode: 'push' };

/** One migration. */
export interface MigrationPlan {
  readonly source: ModelContext;
  readonly target: ModelContext;
  /** Default: `pull` where the source listens on the network, else `push` where the target does, else `relay`. */
  readonly mode: Exclude<MigrationMode, 'backup'> | undefined;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: CopyProgress | undefined;
  /** Begins to send; with `target` to push there. */
  send(target: MigrationPeer | undefined): Promise<Begun>;
  /** Begins to receive. */
  receive(origin: MigrationOrigin): Promise<Begun>;
}

/** An answer that began an operation of the class `websocket`. */
interface Begun {
  readonly operation: string;
  readonly metadata: unknown;
}

/** The mode where none is asked for: `backup` where a server cannot migrate; undefined leaves it to the addresses. */
export async function modeBetween(
  source: ModelContext,
  target: ModelContext,
  extension: string,
): Promise<'backup' | undefined> {
  const able = await Promise.all([source.hasExtension(extension), target.hasExtension(extension)]);
  return able.includes(false) ? 'backup' : undefined;
}

const HIGH_WATER = 1024 * 1024;
const OPEN = 1;

/** Runs a migration to its end. @throws APIException when either server fails; then neither operation goes on */
export async function migrate(plan: MigrationPlan): Promise<void> {
  const [from, to] = await Promise.all([addressesOf(plan.source, plan), addressesOf(plan.target, plan)]);
  const mode = plan.mode ?? (from.addresses.length > 0 ? 'pull' : to.addresses.length > 0 ? 'push' : 'relay');
  if (mode === 'relay') return relay(plan);
  const { addresses, certificate } = mode === 'pull' ? from : to;
  if (addresses.length === 0)
    throw new ClientError(`A migration by ${mode} needs a server that listens on the network`);
  let failure: unknown;
  for (const address of addresses) {
    const peer = (begun: Begun): MigrationPeer => ({
      operation: `${address}${plan.source.connection.path('operations', nameOf(begun.operation))}`,
      certificate,
      secrets: secretsOf(begun),
    });
    try {
      return await (mode === 'pull' ? pull(plan, peer) : push(plan, peer));
    } catch (error) {
      plan.signal?.throwIfAborted();
      if (!(error instanceof FailedLater)) throw error;
      failure = error.failure;
    }
  }
  throw failure;
}

async function pull(plan: MigrationPlan, peer: (begun: Begun) => MigrationPeer): Promise<void> {
  const sending = await plan.send(undefined);
  const receiving = await orCancel(plan.source, sending, plan.receive({ mode: 'pull', ...peer(sending) }));
  await both(plan, sending, receiving);
}

async function push(plan: MigrationPlan, peer: (begun: Begun) => MigrationPeer): Promise<void> {
  const receiving = await plan.receive({ mode: 'push' });
  const sending = await orCancel(plan.target, receiving, plan.send(peer(receiving)));
  await both(plan, sending, receiving);
}

async function relay(plan: MigrationPlan): Promise<void> {
  const sending = await plan.send(undefined);
  const receiving = await orCancel(plan.source, sending, plan.receive({ mode: 'push' }));
  const ends: SocketEnd[] = [];
  const theirs = secretsOf(receiving);
  const join = async ([name, secret]: [string, string]): Promise<void> => {
    const opened = await Promise.allSettled([
      SocketEnd.open(plan.source.connection, sending.operation, { secret, signal: plan.signal }),
      SocketEnd.open(plan.target.connection, receiving.operation, { secret: theirs[name], signal: plan.signal }),
    ]);
    const standing = opened.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
    ends.push(...standing);
    const [source, target] = standing;
    if (source !== undefined && target !== undefined) {
      source.passTo(target);
      target.passTo(source);
    }
    for (const end of opened) if (end.status === 'rejected') throw end.reason;
  };
  try {
    const shared = Object.entries(secretsOf(sending)).filter(([name]) => theirs[name] !== undefined);
    await Promise.all([both(plan, sending, receiving), ...shared.map(join)]);
  } catch (error) {
    await cancel(plan, sending, receiving);
    throw error instanceof FailedLater ? error.failure : error;
  } finally {
    for (const end of ends) end.close();
  }
}

/** An operation of a migration failed: another address of the server may still do. */
class FailedLater extends Error {
  readonly failure: unknown;

  constructor(failure: unknown) {
    super('the migration failed');
    this.failure = failure;
  }
}

/** Waits for both operations; when one fails the other is cancelled. */
async function both(plan: MigrationPlan, sending: Begun, receiving: Begun): Promise<void> {
  const { signal } = plan;
  const onProgress = (side: 'source' | 'target'): WaitForOptions['onProgress'] =>
    plan.onProgress === undefined ? undefined : (operation) => plan.onProgress?.(operation, side);
  try {
    await Promise.all([
      plan.target.operations.wait(receiving.operation, { signal, onProgress: onProgress('target') }),
      plan.source.operations.wait(sending.operation, { signal, onProgress: onProgress('source') }),
    ]);
  } catch (error) {
    await cancel(plan, sending, receiving);
    throw new FailedLater(error);
  }
}

async function cancel(plan: MigrationPlan, sending: Begun, receiving: Begun): Promise<void> {
  const ended = [plan.source.operations.cancel(sending.operation), plan.target.operations.cancel(receiving.operation)];
  await Promise.allSettled(ended); // what has ended cannot be cancelled
}

async function orCancel<T>(context: ModelContext, begun: Begun, next: Promise<T>): Promise<T> {
  try {
    return await next;
  } catch (error) {
    await context.operations.cancel(begun.operation).catch(() => undefined);
    throw error;
  }
}

async function addressesOf(
  { connection }: ModelContext,
  { signal }: MigrationPlan,
): Promise<{ readonly addresses: readonly string[]; readonly certificate: string }> {
  const request: RequestOptions = { signal };
  const { environment } = await connection.get<Partial<Server>>(connection.path(), request);
  const { endpoint } = connection.transport;
  const own = endpoint.startsWith('https:') ? [endpoint] : [];
  const listed = (environment?.addresses ?? []).map((address) => `https://${address}`);
  return { addresses: [...new Set([...own, ...listed])], certificate: environment?.certificate ?? '' };
}

function secretsOf(begun: Begun): Record<string, string> {
  const { metadata } = begun.metadata as Operation;
  const entries = Object.entries(metadata ?? {});
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}

/** One end of a relayed connection. Keeps what comes before the other end stands. */
class SocketEnd {
  readonly #socket: WebSocketLike;
  readonly #early: SocketEvent[] = [];
  #other: WebSocketLike | undefined;

  private constructor(socket: WebSocketLike) {
    this.#socket = socket;
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('message', (event) => {
      if (this.#other === undefined) this.#early.push(event);
      else this.#pass(event, this.#other);
    });
    socket.addEventListener('close', () => this.#closed());
    socket.addEventListener('error', () => this.#closed());
  }

  static async open(
    connection: Connection,
    operation: string,
    options: { readonly secret: string | undefined; readonly signal: AbortSignal | undefined },
  ): Promise<SocketEnd> {
    const { secret, signal } = options;
    const query = { secret, project: projectOf(operation) };
    return new SocketEnd(await connection.openWebSocket(`${operation.split('?')[0]}/websocket`, { query, signal }));
  }

  /** Every message goes on to the other end, and so does the close. */
  passTo(other: SocketEnd): void {
    this.#other = other.#socket;
    for (const event of this.#early.splice(0)) this.#pass(event, other.#socket);
    if (this.#socket.readyState > OPEN) this.#closed();
  }

  close(): void {
    this.#socket.close();
  }

  #pass({ data }: SocketEvent, to: WebSocketLike): void {
    if (to.readyState !== OPEN) return;
    to.send(typeof data === 'string' ? data : new Uint8Array(data as ArrayBuffer));
    const from = this.#socket;
    if (to.bufferedAmount <= HIGH_WATER || from.pause === undefined) return;
    from.pause();
    void drained(to, HIGH_WATER).then(() => from.resume?.());
  }

  /** A close must not overtake what was sent before it. */
  #closed(): void {
    const other = this.#other;
    if (other !== undefined) void drained(other, 0).then(() => other.close());
  }
}

/** Resolves when no more than `limit` bytes wait to be sent. */
async function drained(socket: WebSocketLike, limit: number): Promise<void> {
  while (socket.bufferedAmount > limit && socket.readyState === OPEN) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
