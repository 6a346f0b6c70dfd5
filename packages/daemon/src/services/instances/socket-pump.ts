import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import type { RawData, WebSocket } from 'ws';

/** A socket is not given more while it has this many bytes to send. */
const HIGH_WATER = 256 * 1024;

/**
 * Sends a stream over a socket as binary messages and, at its end, the empty text message that tells peers the data is
 * complete. Reads no faster than the peer takes; once the peer is gone the rest is read and dropped, so that the
 * writer never hangs. Never rejects.
 */
export async function sendStream(source: Readable, socket: WebSocket): Promise<void> {
  socket.resume(); // or its end would not be noticed
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      if (socket.readyState !== socket.OPEN) continue;
      await send(socket, chunk);
    }
  } catch {
    // A stream that breaks off has ended, for the peer.
  }
  if (socket.readyState === socket.OPEN) socket.send('');
}

function send(socket: WebSocket, chunk: Buffer): Promise<void> | void {
  if (socket.bufferedAmount < HIGH_WATER) {
    socket.send(chunk, { binary: true }, () => undefined);
    return;
  }
  return new Promise((resolve) => {
    const done = (): void => {
      socket.off('close', done);
      resolve();
    };
    socket.once('close', done);
    socket.send(chunk, { binary: true }, done);
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
