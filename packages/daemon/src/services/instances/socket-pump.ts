import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import type { RawData, WebSocket } from 'ws';

/** A socket is not given more while it has this many bytes to send. */
const HIGH_WATER = 256 * 1024;

/** How far a stream got. */
export interface Activity {
  /** Grows with every piece. */
  pieces: number;
  /** Whether a piece is on its way to the reader. */
  busy: boolean;
}

/**
 * Sends a stream over a socket as binary messages and, at its end, the empty text message that tells peers the data is
 * complete. Reads no faster than the peer takes; once the peer is gone the rest is read and dropped, so that the
 * writer never hangs. Resolves when the kernel has all of it; never rejects.
 */
export async function sendStream(
  source: Readable,
  socket: WebSocket,
  activity: Activity = { pieces: 0, busy: false },
): Promise<void> {
  socket.resume(); // or its end would not be noticed
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      activity.pieces++;
      if (socket.readyState !== socket.OPEN) continue;
      activity.busy = true;
      await send(socket, chunk);
      activity.busy = false;
    }
  } catch {
    // A stream that breaks off has ended, for the peer.
  }
  activity.busy = true;
  if (socket.readyState === socket.OPEN) await sent(socket, '');
  activity.busy = false;
}

function send(socket: WebSocket, chunk: Buffer): Promise<void> | void {
  if (socket.bufferedAmount >= HIGH_WATER) return sent(socket, chunk);
  socket.send(chunk, { binary: true }, () => undefined);
}

function sent(socket: WebSocket, data: Buffer | string): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      socket.off('close', done);
      resolve();
    };
    socket.once('close', done);
    socket.send(data, { binary: typeof data !== 'string' }, done);
  });
}

/**
 * Writes what a socket brings into a stream, no faster than the stream takes it; a text message or the socket's end
 * is the end of the data. Resolves then; never rejects.
 */
export function receiveStream(
  socket: WebSocket,
  target: Writable,
  options: { readonly endTarget: boolean },
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const finish = (): void => {
    socket.off('message', onMessage);
    if (options.endTarget && !target.writableEnded && !target.destroyed) target.end();
    resolve();
  };
  const onMessage = (data: RawData, binary: boolean): void => {
    if (!binary) {
      finish();
      return;
    }
    if (target.destroyed || target.writableEnded) return;
    if (target.write(toBuffer(data))) return;
    socket.pause();
    void drained(target).then(() => socket.resume());
  };
  target.on('error', () => undefined); // the command closed its input
  socket.on('message', onMessage);
  socket.once('close', finish);
  socket.resume();
  if (socket.readyState === socket.CLOSED) finish();
  return promise;
}

async function drained(target: Writable): Promise<void> {
  const gone = new AbortController();
  try {
    await Promise.race([
      once(target, 'drain', { signal: gone.signal }),
      once(target, 'close', { signal: gone.signal }),
    ]);
  } catch {
    // An error of the stream: nothing is written to it any more.
  } finally {
    gone.abort();
  }
}

export function toBuffer(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}
