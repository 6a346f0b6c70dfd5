import type { Clock } from '../../core/clock.ts';
import { errors } from '../../core/errors.ts';
import type { Ids } from '../../core/ids.ts';
import { OperationSockets } from '../instances/sockets.ts';
import type { OperationContext, Operations, OperationSpec, StartedOperation } from '../operations/contract.ts';
import { dial, parseRemote } from './dial.ts';
import { Peer, SOCKET_NAMES } from './peer.ts';
import { VolumeReceiver } from './receiver.ts';
import { type Count, VolumeSender } from './sender.ts';
import type { TransferTools } from './tools.ts';

export interface MigrationsOptions {
  readonly operations: Operations;
  readonly ids: Ids;
  readonly clock: Clock;
  readonly tools: TransferTools;
  /** Scratch folder of the daemon. */
  readonly scratch: string;
}

/** Where the other server is, as a client names it. */
export interface RemoteEnd {
  readonly operation?: string | undefined;
  readonly certificate?: string | undefined;
  readonly secrets?: Readonly<Record<string, string>> | undefined;
}

/** How long the other side may take to connect, in milliseconds. */
const MEETING = 10_000;
/** Hex digits of a secret. */
const SECRET = 64;
/** Milliseconds between two tellings of the progress. */
const TELL = 200;

type Spec = Pick<OperationSpec, 'project' | 'description' | 'resources' | 'locks' | 'action'>;

/** The operations that move things between servers, and the connections they have. */
export class Migrations {
  readonly sender: VolumeSender;
  readonly receiver: VolumeReceiver;
  readonly #options: MigrationsOptions;

  constructor(options: MigrationsOptions) {
    this.#options = options;
    const { tools, scratch, ids } = options;
    this.sender = new VolumeSender({ tools, scratch, ids });
    this.receiver = new VolumeReceiver({ tools, scratch });
  }

  /** An operation whose sockets the other side connects; their secrets are its metadata. */
  waiting(spec: Spec, work: (peer: Peer, operation: OperationContext) => Promise<void>): StartedOperation {
    const sockets = new OperationSockets(SOCKET_NAMES, MEETING);
    const secrets = Object.fromEntries(SOCKET_NAMES.map((name) => [name, this.#secret()]));
    return this.#options.operations.start({
      ...spec,
      class: 'websocket',
      mayCancel: true,
      secrets,
      secretsAs: 'metadata',
      connect: (name, socket) => sockets.connect(name, socket),
      run: async (operation) => {
        try {
          await sockets.connected(operation.signal);
          const found = new Map(SOCKET_NAMES.map((name) => [name, sockets.get(name)] as const));
          await withPeer(new Peer(found), (peer) => work(peer, operation));
        } finally {
          sockets.close();
        }
      },
    });
  }

  /**
   * An operation that connects to one of another server. `mayReach`: false for a caller that must not make this server
   * connect anywhere it does not hold the certificate of.
   * @throws bad-request, unauthorized before it starts.
   */
  calling(
    spec: Spec,
    end: RemoteEnd & { readonly mayReach: boolean },
    work: (peer: Peer, operation: OperationContext) => Promise<void>,
  ): StartedOperation {
    const { operation: url = '', certificate = '', secrets = {}, mayReach } = end;
    const remote = parseRemote({ url, certificate, secrets });
    if (!mayReach && certificate === '') {
      throw errors.unauthorized('Only an administrator can leave out the certificate of the other server');
    }
    return this.#options.operations.start({
      ...spec,
      class: 'task',
      mayCancel: true,
      run: async (operation) => {
        const sockets = await dial(remote, operation.signal);
        await withPeer(new Peer(sockets), (peer) => work(peer, operation));
      },
    });
  }

  /** Tells how much of `label` has gone by. */
  counter(operation: OperationContext, label: string): Count {
    const now = (): number => this.#options.clock.now();
    const began = now();
    let [bytes, told] = [0, began];
    return (more) => {
      bytes += more;
      if (now() - told < TELL) return;
      told = now();
      operation.progress('fs', {
        label,
        bytes,
        bytesPerSecond: Math.round((bytes * 1000) / Math.max(1, told - began)),
      });
    };
  }

  #secret(): string {
    return this.#options.ids.secret(SECRET / 2).slice(0, SECRET);
  }
}

async function withPeer(peer: Peer, work: (peer: Peer) => Promise<void>): Promise<void> {
  try {
    await work(peer);
  } catch (error) {
    peer.close('failed');
    throw error;
  }
  peer.close('done');
}
