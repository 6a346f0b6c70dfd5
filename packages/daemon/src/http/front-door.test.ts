import { request, startInProcess, type TestApi } from '@keelson/testkit';
import { createConnection } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

let api: TestApi;
beforeAll(async () => {
  api = await startInProcess();
});
afterAll(() => api[Symbol.asyncDispose]());

describe('paths', () => {
  test.each([
    ['/', ['/1.0']],
    ['/1.0/profiles', ['/1.0/profiles/default']],
    ['/1.0/profiles/', ['/1.0/profiles/default']],
    ['/profiles', ['/1.0/profiles/default']],
    ['/profiles/', ['/1.0/profiles/default']],
  ])('%s', async (path, metadata) => {
    expect((await api.request('GET', path)).body.metadata).toEqual(metadata);
  });

  test('a record without version prefix and with trailing slash', async () => {
    const { body } = await api.request<{ name: string }>('GET', '/profiles/default/');
    expect(body.metadata.name).toBe('default');
  });

  test.each(['/1.0/nope', '/nope', '/1.0/profiles/a/b', '/1.0/profiles/%zz', '/1.0//profiles', '/1.0/../etc/passwd'])(
    '%s is not found',
    async (path) => {
      const { status, body } = await api.request('GET', path);
      expect([status, body]).toEqual([
        404,
        {
          type: 'error',
          status: '',
          status_code: 0,
          operation: '',
          error_code: 404,
          error: 'not found',
          metadata: null,
        },
      ]);
    },
  );

  test.each([
    ['DELETE', '/1.0/profiles'],
    ['PUT', '/'],
    ['OPTIONS', '/1.0'],
  ])('%s %s is not implemented, as LXD says', async (method, path) => {
    const { status, body } = await api.request(method, path);
    expect([status, body.error]).toEqual([501, 'not implemented']);
  });

  test('an encoded slash stays inside its part', async () => {
    const { status, body } = await api.request('GET', '/1.0/profiles/a%2Fb');
    expect([status, body.error]).toEqual([404, 'Profile not found']);
  });
});

describe('query', () => {
  test('an unknown project', async () => {
    const { status, body } = await api.request('GET', '/1.0/profiles?project=nope');
    expect([status, body.error]).toEqual([404, 'Failed loading project "nope": Project not found']);
  });

  test.each(['', 'x', '-1', '1.5'])('recursion=%s counts as none', async (recursion) => {
    const { body } = await api.request('GET', `/1.0/profiles?recursion=${recursion}`);
    expect(body.metadata).toEqual(['/1.0/profiles/default']);
  });

  test('filter', async () => {
    const none = await api.request('GET', '/1.0/profiles?recursion=1&filter=name%20eq%20x');
    expect(none.body.metadata).toEqual([]);
    const bad = await api.request('GET', '/1.0/profiles?filter=name');
    expect([bad.status, bad.body.error]).toEqual([400, 'Invalid filter: clause has no operator']);
  });
});

describe('connection', () => {
  test('no answer opens the API to web pages of other origins', async () => {
    const { headers } = await api.request('GET', '/1.0', undefined, { headers: { Origin: 'https://evil.example' } });
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  });

  test.each([
    [{ 'Sec-Fetch-Site': 'cross-site' }],
    [{ 'Sec-Fetch-Site': 'same-site' }],
    [{ Origin: 'https://evil.example' }],
    [{ Origin: 'null' }],
  ])('a change from another origin is refused: %j', async (headers) => {
    const socket = await api.as('trusted');
    const answer = await request(socket, 'POST', '/1.0/profiles', { name: 'csrf' }, { headers });
    expect(answer.status).toBe(403);
    expect((await api.request('GET', '/1.0/profiles/csrf')).status).toBe(404);
  });

  test('garbage gets a 400 and the daemon lives on', async () => {
    const answer = await talk('GARBAGE\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect((await api.request('GET', '/1.0')).status).toBe(200);
  });

  test('a websocket endpoint without upgrade', async () => {
    expect((await api.request('GET', '/1.0/events')).status).toBe(400);
  });

  test('an upgrade of another endpoint', async () => {
    const answer = await talk(
      'GET /1.0 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
  });

  test('another protocol offered as upgrade is ignored', async () => {
    const answer = await talk('GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1.1 200 /);
  });

  test('a body that breaks off leaves nothing', async () => {
    await talk('POST /1.0/profiles HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"name":"half"', 'end');
    expect((await api.request('GET', '/1.0/profiles/half')).status).toBe(404);
  });

  test('an answer does not wait for a body nobody wants, nor cut its sender off', async () => {
    const socket = createConnection(api.socket);
    const answers: string[] = [];
    const closed = new Promise((resolve, reject) => socket.once('close', resolve).once('error', reject));
    socket.on('data', (chunk: Buffer) => {
      answers.push(chunk.toString());
      // Ansible sends the body of a GET in a packet of its own, and goes on with the same connection.
      if (answers.length === 1) socket.write('nullGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    });
    socket.write('GET /1.0/profiles/none HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n');
    await closed;
    expect(answers[0]).toMatch(/^HTTP\/1.1 404 /);
    expect(answers[0]).not.toMatch(/connection: close/i);
    expect(answers.slice(1).join('')).toMatch(/^HTTP\/1.1 200 /);
  });

  test('a large body nobody wants ends the connection', async () => {
    const answer = await talk('GET /1.0/profiles/none HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1.1 404 [^]*connection: close/i);
  });
});

/** Raw bytes in, everything that comes back until the connection ends. */
function talk(bytes: string, then: 'wait' | 'end' = 'wait'): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(api.socket);
    const chunks: Buffer[] = [];
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('close', () => resolve(Buffer.concat(chunks).toString()));
    socket.on('error', reject);
    socket.write(bytes);
    if (then === 'end') socket.end();
  });
}
