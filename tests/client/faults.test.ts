import { getEventListeners, once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { APIException, Client, ClientConnectionFailed, type ClientOptions, exportToFile } from '@keelson/client';
import { until } from '@keelson/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { createServer as createHttpServer } from 'node:http';

/** Far more than any of these calls may take. */
const BOUND_MS = 15_000;

const answer = (body: string, type = 'application/json', status = '200 OK'): string =>
  `HTTP/1.1 ${status}\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const good = (metadata: unknown): string => answer(JSON.stringify({ type: 'sync', status_code: 200, metadata }));

describe('faults', () => {
  let folder: string;
  let socket: string;
  let server: Server | undefined;
  const open = new Set<Socket>();
  const clients: Client[] = [];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-faults-'));
    socket = join(folder, 'unix.socket');
  });
  // Nothing leaks: once the client is closed no connection of any fault is left.
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
    try {
      await until('every connection to be gone', () => open.size === 0, { timeoutMs: BOUND_MS });
    } finally {
      for (const one of open) one.destroy();
      open.clear();
      server?.close();
      server = undefined;
      rmSync(folder, { recursive: true, force: true });
    }
  });

  /** A server that does `act` at each request's head; `nth` counts requests over all connections. */
  async function serve(act: (connection: Socket, nth: number) => void): Promise<void> {
    let count = 0;
    server = createServer({ allowHalfOpen: true }, (connection) => {
      track(connection);
      connection.on('data', () => act(connection, ++count));
      connection.on('end', () => connection.end());
    }).listen(socket);
    await once(server, 'listening');
  }

  function track(connection: Socket): void {
    open.add(connection);
    connection.on('error', () => undefined);
    connection.once('close', () => open.delete(connection));
  }

  function connect(options: ClientOptions = {}): Client {
    const client = new Client({ endpoint: `unix:${socket}`, ...options });
    clients.push(client);
    return client;
  }

  async function failure(call: Promise<unknown>): Promise<ClientConnectionFailed | APIException> {
    const started = Date.now();
    const error: unknown = await call.then(
      () => undefined,
      (one: unknown) => one,
    );
    expect(Date.now() - started).toBeLessThan(BOUND_MS);
    if (error instanceof ClientConnectionFailed || error instanceof APIException) return error;
    throw new Error(`an error of the client was expected, not ${String(error)}`, { cause: error });
  }

  it('refused: no socket there', async () => {
    const error = await failure(connect().server.get());
    expect(error).toBeInstanceOf(ClientConnectionFailed);
    expect(error).toMatchObject({ endpoint: `unix:${socket}`, method: 'GET', url: '/1.0', cause: { code: 'ENOENT' } });
  });

  it('refused: nobody listens', async () => {
    const client = new Client({ endpoint: 'https://127.0.0.1:1', verify: false });
    clients.push(client);
    expect(await failure(client.server.get())).toMatchObject({
      name: 'ClientConnectionFailed',
      endpoint: 'https://127.0.0.1:1',
      cause: { code: 'ECONNREFUSED' },
    });
  });

  it('reset before an answer', async () => {
    await serve((connection) => connection.destroy());
    expect(await failure(connect().server.get())).toMatchObject({ name: 'ClientConnectionFailed' });
    const post = connect().profiles.create('x');
    expect(await failure(post)).toMatchObject({ name: 'ClientConnectionFailed', method: 'POST' });
  });

  it('half-closed: the server ends its side without an answer', async () => {
    await serve((connection) => connection.end());
    expect(await failure(connect().server.get())).toMatchObject({ name: 'ClientConnectionFailed' });
  });

  it('half-closed: the answer breaks off', async () => {
    await serve((connection) => {
      connection.end('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"type":"sy');
    });
    const client = connect();
    expect(await failure(client.server.get())).toMatchObject({ name: 'ClientConnectionFailed' });
    expect(await failure(client.api.get())).toMatchObject({ name: 'ClientConnectionFailed' });
  });

  it('a download that breaks off is an error and leaves no file', async () => {
    await serve((connection, nth) => {
      if (nth === 1) connection.write(good({ fingerprint: 'f1' }));
      else connection.end(`HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n${'x'.repeat(50_000)}`);
    });
    const image = await connect().images.get('f1');
    const before = process.env['TMPDIR'];
    process.env['TMPDIR'] = folder;
    try {
      expect(await failure(exportToFile(image))).toMatchObject({ name: 'ClientConnectionFailed' });
    } finally {
      if (before === undefined) delete process.env['TMPDIR'];
      else process.env['TMPDIR'] = before;
    }
  });

  it('a download that has broken off before anybody reads it is an error too', async () => {
    await serve((connection, nth) => {
      if (nth % 2 === 1) connection.write(good({ fingerprint: 'f1' }));
      else connection.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this', () => connection.destroy());
    });
    const client = connect();
    const image = await client.images.get('f1');
    const whole = await image.export();
    await client.server.get(); // by now its end has come
    expect(await failure(whole.bytes())).toMatchObject({ name: 'ClientConnectionFailed' });
    const inPieces = await image.export();
    await client.server.get();
    const read = async (): Promise<void> => {
      for await (const piece of inPieces) void piece;
    };
    expect(await failure(read())).toMatchObject({ name: 'ClientConnectionFailed' });
  });

  it('a stall before the answer ends with the timeout', async () => {
    await serve(() => undefined);
    const error = await failure(connect({ timeout: 100 }).server.get());
    expect(error.message).toContain('silent for 100 ms');
    expect(error).toBeInstanceOf(ClientConnectionFailed);
  });

  it('a stall within the answer ends with the timeout', async () => {
    await serve((connection) => connection.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"type"'));
    const client = connect({ timeout: 100 });
    expect((await failure(client.server.get())).message).toContain('silent for 100 ms');
    expect((await failure(client.api.get())).message).toContain('silent for 100 ms');
  });

  it('a stall ends with the signal, which keeps no listener', async () => {
    await serve(() => undefined);
    const controller = new AbortController();
    const call = connect().server.get({ signal: controller.signal });
    setTimeout(() => controller.abort(new Error('enough')), 50);
    await expect(call).rejects.toThrow('enough');
    await until('the listeners to go', () => getEventListeners(controller.signal, 'abort').length === 0);
  });

  it('a stalled handshake of events ends with the timeout', async () => {
    await serve(() => undefined);
    const stream = connect({ timeout: 100 }).events();
    expect(await failure(stream.opened())).toBeInstanceOf(ClientConnectionFailed);
    expect(await failure(stream.closed())).toBeInstanceOf(ClientConnectionFailed);
  });

  it('invalid JSON, and JSON that is no answer of the API', async () => {
    const bodies = ['{"type":"sync"', '', '[]', '"text"', 'null', '{}'];
    await serve((connection, nth) => connection.write(answer(bodies[nth - 1] ?? '')));
    const client = connect();
    for (const body of bodies) {
      const error = await failure(client.server.get());
      expect([body, error.name, error.url]).toEqual([body, 'APIException', '/1.0']);
    }
  });

  it('invalid JSON with a secret in it: the error does not repeat it', async () => {
    await serve((connection) => connection.write(answer('{"secret":"s3cret')));
    const error = await failure(connect().server.get());
    expect(`${error.stack}${String(error.cause)}`).not.toContain('s3cret');
  });

  it('a 500 with an HTML body', async () => {
    await serve((connection) =>
      connection.write(answer('<html><h1>Bad gateway</h1></html>', 'text/html', '500 Internal Server Error')),
    );
    const error = await failure(connect().server.get());
    expect(error).toMatchObject({ name: 'APIException', status: 500, method: 'GET', url: '/1.0' });
    expect(error.message).not.toContain('<html>');
  });

  it('what is no HTTP at all', async () => {
    await serve((connection) => connection.end('SSH-2.0-OpenSSH_9.2\r\n'));
    expect(await failure(connect().server.get())).toMatchObject({ name: 'ClientConnectionFailed' });
  });

  describe('a kept connection that the server closes just as it is used again', () => {
    const requests: string[] = [];
    /** Answers the first `good` requests of all; later ones come over a connection that ends without an answer. */
    async function stale(goods: number): Promise<Client> {
      requests.length = 0;
      const used = new Set<Socket>();
      server = createServer((connection) => {
        track(connection);
        connection.on('data', (data) => {
          requests.push(data.toString().split('\r\n')[0] ?? '');
          if (used.has(connection) && requests.length > goods) connection.destroy();
          else connection.write(good({ api_extensions: [] }));
          used.add(connection);
        });
      }).listen(socket);
      await once(server, 'listening');
      return connect();
    }

    it('a GET is asked again, over a connection of its own even where others are as dead', async () => {
      const client = await stale(3);
      await Promise.all([client.server.get(), client.server.get(), client.server.get()]);
      expect(await client.server.get()).toEqual({ api_extensions: [] });
      expect(requests).toHaveLength(5);
    });

    it('a POST that the server may have had is sent once and fails', async () => {
      const client = await stale(1);
      await client.server.get();
      const error = await failure(client.profiles.create('once'));
      expect(error).toMatchObject({ name: 'ClientConnectionFailed', method: 'POST' });
      expect(requests.filter((one) => one.startsWith('POST'))).toHaveLength(1);
    });

    it('a POST that the closed connection did not take is sent again', async () => {
      const client = await stale(9);
      await client.server.get();
      // Closed in the same turn: the client has not seen it yet.
      for (const one of open) one.destroy();
      await client.api.profiles.post({ json: { name: 'again' } });
      expect(requests.filter((one) => one.startsWith('POST'))).toHaveLength(1);
    });

    it('an upload that is a stream is not sent again', async () => {
      const client = await stale(9);
      await client.server.get();
      for (const one of open) one.destroy();
      const upload = client.images.create(Readable.from([Buffer.from('once only')]));
      expect(await failure(upload)).toMatchObject({ name: 'ClientConnectionFailed', method: 'POST' });
    });

    it('an idle connection is given up long before servers do that; a slow answer is waited for', async () => {
      const client = await stale(9);
      await client.server.get();
      await until('the connection to be closed', () => open.size === 0, { timeoutMs: 4000 });
      server?.close();
      rmSync(socket, { force: true });
      await serve((connection) => setTimeout(() => connection.write(good({ api_extensions: [] })), 2500));
      expect(await client.server.get()).toEqual({ api_extensions: [] });
    });
  });

  it('a lost websocket of a command ends the command with an error', async () => {
    const operation = { id: 'o1', class: 'websocket', metadata: { fds: { 0: 'a', 1: 'b', 2: 'c', control: 'd' } } };
    const http = createHttpServer((request, response) => {
      response.setHeader('Content-Type', 'application/json');
      if (request.method === 'POST') {
        const body = { type: 'async', operation: '/1.0/operations/o1', metadata: operation };
        response.writeHead(202).end(JSON.stringify(body));
      } else if (request.url === '/1.0/instances/c1') {
        response.end(JSON.stringify({ type: 'sync', metadata: { name: 'c1' } }));
      }
      // …/wait stays without an answer until the server goes away.
    });
    http.on('connection', track);
    const sockets = new WebSocketServer({ server: http });
    server = http.listen(socket);
    await once(http, 'listening');
    let opened = 0;
    sockets.on('connection', () => {
      opened += 1;
    });
    const instance = await connect().instances.get('c1');
    const process = await instance.exec(['sleep', '1000'], { lossTimeout: 300 });
    await until('the sockets', () => opened === 4);
    for (const one of open) one.destroy();
    expect(await failure(process.exited)).toBeInstanceOf(ClientConnectionFailed);
    expect(await process.stdout.text()).toBe('');
    sockets.close();
  });

  it('a lost websocket of events: the stream goes on with the next', async () => {
    const http = createHttpServer().on('connection', track);
    const sockets = new WebSocketServer({ server: http });
    server = http.listen(socket);
    await once(http, 'listening');
    let connections = 0;
    sockets.on('connection', (one) => {
      connections += 1;
      one.send(JSON.stringify({ type: 'logging', metadata: { message: String(connections) } }));
      if (connections < 3) one.terminate();
    });
    const messages: string[] = [];
    for await (const event of connect().events({ minDelay: 1 })) {
      if (event.type === 'logging') messages.push(event.metadata.message);
      if (messages.length === 3) break;
    }
    expect(messages).toEqual(['1', '2', '3']);
    await using again = connect().events({ reconnect: false });
    connections = 0;
    await again.closed();
    sockets.close();
  });

  it('closing the client ends what is under way', async () => {
    await serve(() => undefined);
    const client = connect();
    const call = failure(client.server.get());
    await until('the connection', () => open.size === 1);
    await client.close();
    expect(await call).toBeInstanceOf(ClientConnectionFailed);
  });
});
