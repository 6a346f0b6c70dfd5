import type { WebSocket } from 'ws';
import { isKeelsonError } from '../../core/errors.ts';
import { ControlChannel, DataChannel } from './channels.ts';
import { encodeControl } from './wire/messages.ts';

/** Sockets of a migration, by LXD's names. */
export type MigrationSockets = ReadonlyMap<string, WebSocket>;

/** Names of the sockets every migration has. */
export const SOCKET_NAMES = ['control', 'fs'] as const;

/** How long the close of a connection may take, in milliseconds. */
const GOODBYE = 5_000;

/** The other server of a migration. */
export class Peer {
  readonly control: ControlChannel;
  readonly data: DataChannel;
  readonly #sockets: MigrationSockets;

  /** @throws Error unless both sockets are there. */
  constructor(sockets: MigrationSockets) {
    const of = (name: string): WebSocket => {
      const socket = sockets.get(name);
      if (socket === undefined) throw new Error(`Socket "${name}" is not connected`);
      return socket;
    };
    this.#sockets = sockets;
    this.control = new ControlChannel(of('control'));
    this.data = new DataChannel(of('fs'));
  }

  /** Tells the peer how it went, as far as it can still be told. */
  async conclude(error?: unknown): Promise<void> {
    const message = encodeControl({ success: error === undefined, message: error === undefined ? '' : textOf(error) });
    await this.control.send(message).catch(() => undefined);
  }

  /** Breaks off the transfer; what went wrong can still be told. */
  cut(): void {
    for (const [name, socket] of this.#sockets) if (name !== 'control') socket.terminate();
  }

  /** Ends the connections; of one that failed nothing that waits is sent any more. */
  close(how: 'done' | 'failed'): void {
    if (how === 'failed') this.cut();
    for (const socket of this.#sockets.values()) {
      socket.resume();
      socket.close(1000);
      setTimeout(() => socket.terminate(), GOODBYE).unref();
    }
  }
}

/** Nothing of the inside of this server is told to another. */
function textOf(error: unknown): string {
  return isKeelsonError(error) && error.code !== 'internal'
    ? error.message
    : 'The other server failed; its log tells more';
}
