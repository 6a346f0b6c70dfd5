import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { type WebSocket, WebSocket as Client, WebSocketServer } from 'ws';
import { receiveStream, sendStream } from './socket-pump.ts';

/** Both ends of a websocket over a local port. */
async function pair(): Promise<{ server: WebSocket; client: WebSocket } & AsyncDisposable> {
  const listener = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await new Promise((resolve) => listener.once('listening', resolve));
  const address = listener.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const accepted = new Promise<WebSocket>((resolve) => listener.once('connection', resolve));
  const client = new Client(`ws://127.0.0.1:${address.port}`);
  const server = await accepted;
  if (client.readyState !== client.OPEN) await new Promise((resolve) => client.once('open', resolve));
  return {
    server,
    client,
    [Symbol.asyncDispose]: async () => {
      client.terminate();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}

describe('sendStream', () => {
  it('sends the data, then the empty text that ends it', async () => {
    await using both = await pair();
    const messages: [string, boolean][] = [];
    const ended = new Promise<void>((resolve) =>
      both.client.on('message', (data, binary) => {
        messages.push([String(data), binary]);
        if (!binary) resolve();
      }),
    );
    const source = new PassThrough();
    source.end('hello');
    await sendStream(source, both.server);
    await ended;
    expect(messages).toEqual([
      ['hello', true],
      ['', false],
    ]);
  });

  it('reads on when the peer is gone', async () => {
    await using both = await pair();
    both.client.terminate();
    await new Promise((resolve) => both.server.once('close', resolve));
    const source = new PassThrough();
    for (let index = 0; index < 64; index++) source.write(Buffer.alloc(16_384));
    source.end();
    await sendStream(source, both.server);
    expect(source.readableEnded).toBe(true);
  });

  it('does not read ahead of a slow peer', async () => {
    await using both = await pair();
    both.client.pause();
    let produced = 0;
    const source = new PassThrough({ highWaterMark: 65_536 });
    const chunk = Buffer.alloc(65_536);
    const fill = (): void => {
      while (produced < 2000 && source.write(chunk)) produced++;
    };
    source.on('drain', fill);
    fill();
    const sending = sendStream(source, both.server);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(produced).toBeLessThan(500);
    both.client.terminate();
    source.end();
    await sending;
  });
});

describe('receiveStream', () => {
  it('ends the target at a text message', async () => {
    await using both = await pair();
    const target = new PassThrough();
    const received = receiveStream(both.server, target, { endTarget: true });
    both.client.send(Buffer.from('in'));
    both.client.send('');
    await received;
    expect(await target.toArray()).toEqual([Buffer.from('in')]);
  });

  it('holds the peer back while the target is full', async () => {
    await using both = await pair();
    const target = new PassThrough({ highWaterMark: 1024 });
    const received = receiveStream(both.server, target, { endTarget: true });
    for (let index = 0; index < 4; index++) both.client.send(Buffer.alloc(4096));
    await expect.poll(() => both.server.isPaused).toBe(true);
    expect(target.readableLength).toBeLessThan(16_384);
    target.resume();
    both.client.send('');
    await received;
  });
});
