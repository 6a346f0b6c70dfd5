import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { type ExecProcess, OutputStream } from './index.ts';
import { TinyServer } from './testing/tiny-server.ts';

const CHUNK = Buffer.alloc(64 * 1024, 'x');
const TOTAL = 32 * 1024 * 1024;

describe('exec', () => {
  let tiny: TinyServer;
  let sockets: WebSocketServer;
  /** Bytes of stdout that the connection took. */
  let taken: number;
  let ended: boolean;

  beforeEach(async () => {
    [taken, ended] = [0, false];
    tiny = await TinyServer.start();
    sockets = new WebSocketServer({ server: tiny.server, perMessageDeflate: false });
    const metadata = { metadata: { fds: { 0: 'in', 1: 'out', 2: 'err', control: 'control' } } };
    tiny.reply('GET /1.0/instances/c1', { metadata: { name: 'c1' } });
    tiny.reply('POST /1.0/instances/c1/exec', { metadata, operation: '/1.0/operations/o1' });
    tiny.reply('GET /1.0/operations/o1/wait?timeout=60', () => ({
      metadata: { id: 'o1', status_code: ended ? 200 : 103, metadata: { return: 3 } },
    }));
    sockets.on('connection', (socket, request) => {
      if (request.url?.includes('secret=out')) void flood(socket);
      if (request.url?.includes('secret=err')) socket.send('');
    });
  });
  afterEach(async () => {
    sockets.close();
    await tiny[Symbol.asyncDispose]();
  });

  /** A command that writes as fast as its reader takes it. */
  async function flood(socket: WebSocket): Promise<void> {
    while (taken < TOTAL && socket.readyState === socket.OPEN) {
      await new Promise<void>((resolve) => socket.send(CHUNK, () => resolve()));
      taken += CHUNK.byteLength;
    }
    ended = true;
    if (socket.readyState === socket.OPEN) socket.send('');
  }

  async function run(): Promise<ExecProcess> {
    return (await tiny.client().instances.get('c1')).exec(['flood']);
  }

  /** Resolves when nothing more was taken for a while. */
  async function stalled(): Promise<void> {
    for (let [before, quiet] = [-1, 0]; quiet < 10; before = taken) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      quiet = before === taken ? quiet + 1 : 0;
    }
  }

  it('a slow reader stops the command; nothing is lost', async () => {
    await using process = await run();
    const output = process.stdout[Symbol.asyncIterator]();
    let size = (await output.next()).value?.byteLength ?? 0;
    await stalled();
    expect(taken).toBeLessThan(8 * 1024 * 1024);
    for (let next = await output.next(); !next.done; next = await output.next()) size += next.value.byteLength;
    expect(size).toBe(TOTAL);
    expect(await process.exited).toBe(3);
  });

  it('a reader that leaves, or discards, lets the command run on', async () => {
    await using process = await run();
    await stalled();
    expect(taken).toBeLessThan(TOTAL);
    for await (const chunk of process.stdout) {
      expect(chunk.byteLength).toBeGreaterThan(0);
      break;
    }
    expect([await process.exited, taken]).toEqual([3, TOTAL]);
    [taken, ended] = [0, false];
    await using other = await run();
    other.stdout.discard();
    expect([await other.exited, taken]).toEqual([3, TOTAL]);
  });

  it('a command nobody reads can be disposed of', async () => {
    const process = await run();
    await stalled();
    ended = true;
    await process[Symbol.asyncDispose]();
    expect(tiny.requests.length).toBeGreaterThan(0);
  });

  it('one that was left holds the program back no longer', async () => {
    const left = new AbortController();
    const instance = await tiny.client().instances.get('c1');
    const timers = vi.spyOn(globalThis, 'setTimeout');
    const process = await instance.exec(['flood'], { signal: left.signal, lossTimeout: 54_321 });
    left.abort(new Error('left'));
    await expect(process.exited).rejects.toThrow('left');
    for (const socket of sockets.clients) socket.terminate();
    await stalled();
    expect(timers.mock.calls.filter(([, delay]) => delay === 54_321)).toEqual([]);
    timers.mockRestore();
  });

  it('pauses at a mebibyte, goes on at half of it', () => {
    const calls: string[] = [];
    const output = new OutputStream();
    output.readFrom({ pause: () => calls.push('pause'), resume: () => calls.push('resume') });
    output.push(new Uint8Array(1024 * 1024));
    expect(calls).toEqual([]);
    output.push(new Uint8Array(1));
    output.push(new Uint8Array(1));
    expect(calls).toEqual(['pause']);
    output.end();
    expect(calls).toEqual(['pause', 'resume']);
  });
});
