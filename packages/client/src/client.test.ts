import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { type ApiNode, APIException, type Client, ClientConnectionFailed, exportToFile, NotFound } from './index.ts';
import { Warnings } from './warnings.ts';
import { error, TinyServer } from './testing/tiny-server.ts';

describe('Client', () => {
  let tiny: TinyServer;
  let client: Client;
  beforeEach(async () => {
    tiny = await TinyServer.start();
    client = tiny.client();
  });
  afterEach(() => tiny[Symbol.asyncDispose]());

  describe('api', () => {
    const ask = async (node: ApiNode | undefined): Promise<string> => {
      await node?.get();
      return tiny.asked.at(-1) ?? '';
    };

    it('appends one part for each attribute or index', async () => {
      expect(await ask(client.api)).toBe('GET /1.0');
      expect(await ask(client.api['instances']?.['c1'])).toBe('GET /1.0/instances/c1');
      expect(await ask(client.api['storage-pools']?.['p1']?.['resources'])).toBe('GET /1.0/storage-pools/p1/resources');
      expect(await ask(client.api['a/b c'])).toBe('GET /1.0/a%2Fb%20c');
    });

    it('reaches parts that are called like methods', async () => {
      expect(await ask(client.api.part('get'))).toBe('GET /1.0/get');
      expect(await ask(client.api['instances']?.part('delete'))).toBe('GET /1.0/instances/delete');
      expect(client.api['instances']?.path).toBe('/1.0/instances');
    });

    it('sends JSON, query and headers, and leaves errors to the caller', async () => {
      tiny.reply('PATCH /1.0/x?force=true', { metadata: [1] });
      const answer = await client.api['x']?.patch({
        json: { a: 1 },
        query: { force: true },
        headers: { 'X-One': '1' },
      });
      expect(tiny.requests[0]).toMatchObject({ json: { a: 1 }, headers: { 'x-one': '1' } });
      expect(await answer?.json()).toMatchObject({ metadata: [1] });
      const lost = await client.api['y']?.delete();
      expect([lost?.status, await lost?.text()]).toEqual([404, expect.stringContaining('Not found')]);
    });

    it('keeps bytes as they are', async () => {
      tiny.reply('GET /1.0/bin', () => ({ status: 200, body: 'é' }));
      const answer = await client.api['bin']?.get();
      expect([...((await answer?.bytes()) ?? [])]).toEqual([0xc3, 0xa9]);
    });
  });

  it('adds project and target to every request', async () => {
    const scoped = tiny.client({ project: 'blue', target: 'm1' });
    await scoped.api['instances']?.get();
    expect(tiny.asked).toEqual(['GET /1.0/instances?project=blue&target=m1']);
  });

  it('asks for the extensions once, and again after it failed', async () => {
    tiny.reply('GET /1.0', error(503, 'Starting'));
    await expect(client.hasApiExtension('storage')).rejects.toMatchObject({ status: 503 });
    tiny.reply('GET /1.0', { metadata: { api_extensions: ['storage'] } });
    expect([await client.hasApiExtension('storage'), await client.hasApiExtension('x')]).toEqual([true, false]);
    expect(tiny.asked).toHaveLength(2);
  });

  it('tells errors apart and never repeats a secret', async () => {
    tiny.reply('GET /1.0/images/x?secret=s3cret', error(403, 'Forbidden'));
    const image = client.request('GET', '/1.0/images/x?secret=s3cret');
    expect((await image).status).toBe(403);
    const { connection } = Reflect.get(client.images, 'context');
    const failed: APIException = await connection.get('/1.0/images/x?secret=s3cret').catch((one: unknown) => one);
    expect(failed).toBeInstanceOf(APIException);
    expect([failed.status, failed.method, failed.url]).toEqual([403, 'GET', '/1.0/images/x?secret=…']);
    expect(`${failed.stack}`).not.toContain('s3cret');
    await expect(client.profiles.get('absent')).rejects.toBeInstanceOf(NotFound);
    await expect(client.authenticate('hunter2')).rejects.toSatisfy((one: Error) => !`${one.stack}`.includes('hunter2'));
  });

  it('sends headers under both families of names', async () => {
    tiny.reply('POST /1.0/instances/c1/files?path=%2Fa', { metadata: null });
    tiny.reply('GET /1.0/instances/c1', { metadata: { name: 'c1' } });
    const instance = await client.instances.get('c1');
    await instance.files.put('/a', 'text', { mode: 0o644, uid: 7 });
    const { headers } = tiny.requests.at(-1) ?? { headers: {} };
    expect(headers).toMatchObject({
      'x-lxd-mode': '0644',
      'x-incus-mode': '0644',
      'x-lxd-uid': '7',
      'x-incus-uid': '7',
    });
  });

  it('sends image and metadata as one multipart request', async () => {
    tiny.reply('POST /1.0/images', { metadata: {}, operation: '/1.0/operations/o1' });
    const ended = { id: 'o1', status_code: 200, metadata: { fingerprint: 'f1' } };
    tiny.reply('GET /1.0/operations/o1/wait?timeout=60', { metadata: ended });
    tiny.reply('GET /1.0/images/f1', { metadata: { fingerprint: 'f1' } });
    await client.images.create('ROOT', { metadata: 'META', public: true });
    const sent = tiny.requests[0];
    expect(sent?.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/);
    expect(sent?.text).toMatch(/name="metadata"[^]*META[^]*name="rootfs"[^]*ROOT/);
    expect([sent?.headers['x-lxd-public'], sent?.headers['x-incus-public']]).toEqual(['1', '1']);
  });

  it('exports in chunks of the size asked for', async () => {
    tiny.reply('GET /1.0/images/f1', { metadata: { fingerprint: 'f1' } });
    tiny.reply('GET /1.0/images/f1/export', { status: 200, body: 'x'.repeat(5000) });
    const image = await client.images.get('f1');
    await using file = await exportToFile(image, { chunkSize: 100 });
    expect(readFileSync(file.path, 'utf8')).toBe('x'.repeat(5000));
    await expect(exportToFile(image, { chunkSize: 0 })).rejects.toBeInstanceOf(RangeError);
  });

  it('an operation that failed is an APIException with its id', async () => {
    const failed = { id: 'o1', status_code: 400, err: 'No space left', status: 'Failure', description: 'Making it' };
    tiny.reply('GET /1.0/operations/o1/wait?timeout=60', { metadata: failed });
    const waited = client.operations.waitForOperation('/1.0/operations/o1');
    await expect(waited).rejects.toMatchObject({ name: 'APIException', status: 400, operation: 'o1' });
    await expect(client.operations.waitForOperation('o1')).rejects.toThrow('No space left');
  });

  it('waits on through answers of an operation that still runs', async () => {
    let asked = 0;
    tiny.reply('GET /1.0/operations/o1/wait?timeout=60', () => ({
      metadata: { id: 'o1', status_code: ++asked < 3 ? 103 : 200 },
    }));
    expect((await client.operations.waitForOperation('o1')).status_code).toBe(200);
    expect(asked).toBe(3);
  });

  it('an aborted signal ends a call with its reason', async () => {
    const hanging = await TinyServer.start();
    await using _ = hanging;
    hanging.server.removeAllListeners('request');
    const controller = new AbortController();
    const waiting = hanging.client().instances.all({ signal: controller.signal });
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(client.profiles.get('x', { signal: controller.signal })).rejects.toThrow('enough');
  });

  it('warns once of an attribute it does not know', () => {
    const seen: string[] = [];
    let mode: string | undefined;
    const warnings = new Warnings(
      (text) => seen.push(text),
      () => mode,
    );
    warnings.warn('a');
    warnings.warn('a');
    expect(seen).toEqual(['a']);
    mode = 'always';
    warnings.warn('a');
    mode = 'none';
    warnings.warn('b');
    expect(seen).toEqual(['a', 'a']);
  });

  it('a closed client refuses to go on', async () => {
    await client.close();
    await expect(client.api.get()).rejects.toThrow('The client was closed');
    await expect(client.server.get()).rejects.toBeInstanceOf(ClientConnectionFailed);
  });

  describe('events', () => {
    const serve = (): WebSocketServer => new WebSocketServer({ server: tiny.server });
    const event = (action: string): string => JSON.stringify({ type: 'lifecycle', metadata: { action, source: '/' } });

    it('asks for the types, and for none when All is among them', async () => {
      const urls: string[] = [];
      const sockets = serve().on('connection', (socket, request) => {
        urls.push(request.url ?? '');
        socket.close();
      });
      for (const types of [undefined, ['lifecycle', 'operation'], ['lifecycle', 'All']] as const) {
        await using stream = client.events({ reconnect: false, ...(types === undefined ? {} : { types }) });
        await stream.closed();
      }
      expect(urls).toEqual(['/1.0/events', '/1.0/events?type=lifecycle%2Coperation', '/1.0/events']);
      sockets.close();
    });

    it('connects again after a loss, from the last event seen', async () => {
      const urls: string[] = [];
      const sockets = serve().on('connection', (socket, request) => {
        urls.push(request.url ?? '');
        socket.send(
          JSON.stringify({ type: 'lifecycle', sequence: urls.length, metadata: { action: `a${urls.length}` } }),
        );
        if (urls.length === 1) socket.terminate();
      });
      const actions: unknown[] = [];
      for await (const one of client.events({ minDelay: 1 })) {
        actions.push(one.type === 'lifecycle' ? one.metadata.action : one.type);
        if (actions.length === 2) break;
      }
      expect([actions, urls[1]]).toEqual([['a1', 'a2'], '/1.0/events?since=1']);
      sockets.close();
    });

    it('what a handler throws ends the stream', async () => {
      const sockets = serve().on('connection', (socket) => socket.send(event('x')));
      const stream = client.events({
        onEvent: () => {
          throw new Error('no more');
        },
      });
      await expect(stream.closed()).rejects.toThrow('no more');
      sockets.close();
    });

    it('a server that refuses is an error for whoever waits', async () => {
      tiny.server.on('upgrade', (_request, socket) => {
        const body = JSON.stringify({ type: 'error', error: 'not authorized' });
        socket.end(`HTTP/1.1 403 Forbidden\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
      });
      const stream = client.events();
      await expect(stream.opened()).rejects.toMatchObject({ name: 'APIException', status: 403 });
      await expect(stream[Symbol.asyncIterator]().next()).rejects.toThrow('not authorized');
    });
  });
});
