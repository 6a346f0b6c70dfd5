import { startInProcess, type TestApi } from '@keelson/testkit';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';

interface Message {
  readonly type: string;
  readonly project: string;
  readonly location: string;
  readonly timestamp: string;
  readonly sequence: number;
  readonly metadata: Record<string, unknown>;
}

let api: TestApi;
beforeAll(async () => {
  api = await startInProcess();
});
afterAll(() => api[Symbol.asyncDispose]());

const change = (name: string) => api.request('POST', '/1.0/profiles', { name });

/** A connection with what came over it; `next` waits for the next message. */
class Listener implements AsyncDisposable {
  readonly #socket: WebSocket;
  readonly #messages: Message[] = [];
  #wake: () => void = () => undefined;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data) => {
      this.#messages.push(JSON.parse(String(data)) as Message);
      this.#wake();
    });
  }

  async next(): Promise<Message> {
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined) return message;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#socket, 'close');
    this.#socket.close();
    await closed;
  }
}

async function listen(query = '', socketPath = api.socket): Promise<Listener> {
  const socket = new WebSocket(`ws+unix://${socketPath}:/1.0/events${query}`);
  const listener = new Listener(socket);
  await once(socket, 'open');
  return listener;
}

/** Status of the answer to an upgrade that is refused. */
function refusal(path: string, socketPath = api.socket, headers: Record<string, string> = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws+unix://${socketPath}:${path}`, { headers });
    socket.on('unexpected-response', (_request, response) => {
      resolve(response.statusCode ?? 0);
      socket.terminate();
    });
    socket.on('error', () => undefined);
    socket.on('open', () => reject(new Error('The upgrade was accepted')));
  });
}

describe('events', () => {
  test('a lifecycle event has LXD’s shape', async () => {
    await using listener = await listen('?type=lifecycle');
    await change('seen');
    expect(await listener.next()).toEqual({
      type: 'lifecycle',
      project: 'default',
      location: 'none',
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      sequence: expect.any(Number),
      metadata: {
        action: 'profile-created',
        source: '/1.0/profiles/seen',
        requestor: { username: 'root', protocol: 'unix', address: '@' },
      },
    });
  });

  test('types are told apart', async () => {
    await using operations = await listen('?type=operation');
    await using both = await listen('?type=operation,lifecycle');
    await change('typed');
    expect((await both.next()).type).toBe('lifecycle');
    await api.request('PATCH', '/1.0', { config: { 'core.https_address': '127.0.0.1:0' } });
    await api.request('POST', '/1.0/certificates', { type: 'client', token: true });
    expect((await operations.next()).type).toBe('operation');
  });

  test('what was missed can be replayed', async () => {
    await change('first');
    let sequence: number;
    {
      await using listener = await listen('?type=lifecycle');
      await change('second');
      sequence = (await listener.next()).sequence;
    }
    await change('third');
    await using again = await listen(`?type=lifecycle&since=${sequence}`);
    expect((await again.next()).metadata['source']).toBe('/1.0/profiles/third');
    await change('fourth');
    expect((await again.next()).metadata['source']).toBe('/1.0/profiles/fourth');
  });

  test('a restricted caller hears of its projects only, and never the log', async () => {
    const socket = await api.as('restricted', ['default']);
    await using listener = await listen('?all-projects=true', socket);
    await api.request('POST', '/1.0/projects', { name: 'secret' });
    await api.request('POST', '/1.0/profiles?project=secret', { name: 'hidden' });
    await change('visible');
    const seen = await listener.next();
    expect([seen.type, seen.metadata['source']]).toEqual(['lifecycle', '/1.0/profiles/visible']);
  });

  test('callers without rights are refused before the upgrade', async () => {
    expect(await refusal('/1.0/events', await api.as('untrusted'))).toBe(403);
    expect(await refusal('/1.0/events', await api.as('restricted', ['x']))).toBe(403);
    expect(await refusal('/1.0/events?type=zork')).toBe(400);
    expect(await refusal('/1.0/events?since=x')).toBe(400);
  });

  test('a web page of another origin is refused', async () => {
    expect(await refusal('/1.0/events', await api.as('trusted'), { Origin: 'https://evil.example' })).toBe(403);
  });
});

describe('operation websockets', () => {
  test('an unknown operation', async () => {
    expect(await refusal('/1.0/operations/none/websocket?secret=x')).toBe(404);
  });

  test('a wrong secret gets nothing', async () => {
    await api.request('PATCH', '/1.0', { config: { 'core.https_address': '127.0.0.1:0' } });
    const issued = await api.request<{ id: string }>('POST', '/1.0/certificates', { type: 'client', token: true });
    const path = `/1.0/operations/${issued.body.metadata.id}/websocket`;
    expect(await refusal(path)).toBe(400);
    expect(await refusal(`${path}?secret=guess`, await api.as('untrusted'))).toBe(403);
  });
});

describe('operations', () => {
  test('are listed by status, waited for and cancelled', async () => {
    await api.request('PATCH', '/1.0', { config: { 'core.https_address': '127.0.0.1:0' } });
    const issued = await api.request<{ id: string }>('POST', '/1.0/certificates', { type: 'client', token: true });
    const url = issued.body.operation;
    expect(issued.headers.location).toBe(url);
    const list = await api.request<{ running: string[] }>('GET', '/1.0/operations');
    expect(list.body.metadata.running).toContain(url);
    const waited = await api.request<{ status: string }>('GET', `${url}/wait?timeout=0`);
    expect(waited.body.metadata.status).toBe('Running');
    expect((await api.request('DELETE', url)).body.metadata).toEqual({});
    const ended = await api.request<{ status: string }>('GET', `${url}/wait?timeout=5`);
    expect(ended.body.metadata.status).toBe('Cancelled');
  });

  test.each([
    ['GET', '/1.0/operations/none'],
    ['GET', '/1.0/operations/none/wait'],
    ['DELETE', '/1.0/operations/none'],
  ])('%s %s is not found', async (method, path) => {
    const { status, body } = await api.request(method, path);
    expect([status, body.error]).toEqual([404, 'Operation not found']);
  });

  test('a secret is in the answer to its creator only', async () => {
    const { text } = await api.request('GET', '/1.0/operations?recursion=1');
    expect(text).not.toContain('secret');
  });
});
