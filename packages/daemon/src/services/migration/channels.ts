import { Readable, Writable } from 'node:stream';
import { callbackify } from 'node:util';
import type { RawData, WebSocket } from 'ws';
import { errors, type KeelsonError } from '../../core/errors.ts';

/** Bytes that wait for their reader before the peer is made to wait. */
const READ_AHEAD = 1024 * 1024;
/** Bytes that wait to be sent before the writer is made to wait. */
const WRITE_AHEAD = 512 * 1024;
/** Largest message of the control channel. */
const CONTROL = 4 * 1024 * 1024;
/** What a message costs beside its bytes: many empty ones fill the memory too. */
const OVERHEAD = 256;
/** Largest message this side sends. */
const MESSAGE = 256 * 1024;

/** What came in: a message, the end of a frame, or the end of the connection. */
type Item = Buffer | 'barrier' | 'closed';

/** Messages of one socket in their order, taken one at a time; the peer waits when nobody takes them. */
class Inbox {
  readonly #socket: WebSocket;
  readonly #items: Item[] = [];
  #bytes = 0;
  #wake: (() => void) | undefined;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data: RawData, binary: boolean) => this.#put(binary ? toBuffer(data) : 'barrier'));
    socket.on('error', () => undefined); // `close` follows
    socket.once('close', () => this.#put('closed'));
    if (socket.readyState === socket.CLOSED) this.#put('closed');
    socket.resume();
  }

  async take(): Promise<Item> {
    for (;;) {
      const item = this.#items[0];
      if (item === 'closed') return item; // it stays closed
      if (item !== undefined) {
        this.#items.shift();
        this.#bytes -= costOf(item);
        if (this.#bytes < READ_AHEAD / 2 && this.#socket.isPaused) this.#socket.resume();
        return item;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #put(item: Item): void {
    this.#items.push(item);
    this.#bytes += costOf(item);
    if (this.#bytes > READ_AHEAD) this.#socket.pause();
    this.#wake?.();
    this.#wake = undefined;
  }
}

function costOf(item: Item): number {
  return OVERHEAD + (typeof item === 'string' ? 0 : item.length);
}

/** One message of Protocol Buffers after the other, both ways. */
export class ControlChannel {
  readonly #socket: WebSocket;
  readonly #inbox: Inbox;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    this.#inbox = new Inbox(socket);
  }

  /** @throws bad-request when the connection is gone. */
  async send(message: Buffer): Promise<void> {
    await sendOn(this.#socket, message);
  }

  /** @throws bad-request when the connection is gone, or what comes is no message. */
  async receive(): Promise<Buffer> {
    const item = await this.#inbox.take();
    if (item === 'closed') throw goneAway();
    if (item === 'barrier') throw errors.badRequest('The other server sent a text where a message was due');
    if (item.length > CONTROL) throw errors.badRequest('The other server sent a message that is too long');
    return item;
  }
}

/** Frames of bytes one after the other, both ways at once; an empty text message ends a frame. */
export class DataChannel {
  readonly #socket: WebSocket;
  readonly #inbox: Inbox;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    this.#inbox = new Inbox(socket);
  }

  /** The next frame; it must be read to its end before the one after it. It fails when the connection breaks off. */
  read(): Readable {
    const frame = Readable.from(this.#frame(), { objectMode: false, highWaterMark: MESSAGE });
    // Whoever reads it learns of the end; that nobody reads yet must not end the daemon.
    return frame.on('error', () => undefined);
  }

  async *#frame(): AsyncGenerator<Buffer> {
    for (;;) {
      const item = await this.#inbox.take();
      if (item === 'barrier') return;
      if (item === 'closed') throw goneAway();
      if (item.length > 0) yield item;
    }
  }

  /** @throws bad-request when the next frame is longer than `limit` bytes. */
  async readAll(limit: number): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of this.#frame()) {
      length += chunk.length;
      if (length > limit) throw errors.badRequest(`The other server sent more than ${limit} bytes of description`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }

  /** The next frame this side sends; its end ends the frame. */
  write(): Writable {
    const socket = this.#socket;
    const frame = new Writable({
      highWaterMark: WRITE_AHEAD,
      write: (chunk: Buffer, _encoding, done) => callbackify(sendParts)(socket, chunk, done),
      final: (done) => callbackify(sendOn)(socket, '', done),
    });
    return frame.on('error', () => undefined);
  }
}

async function sendParts(socket: WebSocket, chunk: Buffer): Promise<void> {
  for (let at = 0; at < chunk.length; at += MESSAGE) await sendOn(socket, chunk.subarray(at, at + MESSAGE));
}

/** Resolves when there is room for more. @throws bad-request when the connection is gone. */
function sendOn(socket: WebSocket, data: Buffer | string): Promise<void> {
  return new Promise((resolve, reject) => {
    if (socket.readyState !== socket.OPEN) {
      reject(goneAway());
      return;
    }
    const wait = socket.bufferedAmount >= WRITE_AHEAD;
    socket.send(data, { binary: typeof data !== 'string' }, (error) => {
      if (error === undefined || error === null) resolve();
      else reject(goneAway(error));
    });
    if (!wait) resolve();
  });
}

function goneAway(cause?: unknown): KeelsonError {
  return errors.badRequest('The other server closed the connection before the transfer was complete', cause);
}

function toBuffer(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}
