import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { drained } from './drained.ts';

const never = new AbortController().signal;

describe('drained', () => {
  let folder: string;
  let writer: Socket;
  let reader: Socket;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-drained-'));
    const server = createServer().listen(join(folder, 'socket'));
    await once(server, 'listening');
    writer = connect(join(folder, 'socket'));
    const [accepted] = (await once(server, 'connection')) as [Socket];
    reader = accepted;
    server.close();
  });
  afterEach(() => {
    writer.destroy();
    reader.destroy();
    rmSync(folder, { recursive: true });
  });

  it('reads what came while this thread was held up, however long that was', async () => {
    const activity = { pieces: 0, busy: false };
    reader.on('data', () => activity.pieces++);
    const over = drained({ done: new Promise(() => undefined), activities: [activity] }, never);
    writer.write('the last words');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
    await over;
    expect(activity.pieces).toBe(1);
  });

  it('is over at the end of the output', async () => {
    const output = { done: Promise.resolve(), activities: [{ pieces: 0, busy: true }] };
    await expect(drained(output, never)).resolves.toBeUndefined();
  });

  it('waits for a reader as long as a piece is on its way to it', async () => {
    const activity = { pieces: 1, busy: true };
    let over = false;
    const wait = drained({ done: new Promise(() => undefined), activities: [activity] }, never).then(() => {
      over = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(over).toBe(false);
    activity.busy = false;
    await wait;
  });

  it('is over when it is given up', async () => {
    const given = new AbortController();
    const wait = drained({ done: new Promise(() => undefined), activities: [{ pieces: 0, busy: true }] }, given.signal);
    given.abort();
    await expect(wait).resolves.toBeUndefined();
  });
});
