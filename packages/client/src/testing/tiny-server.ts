import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, type ClientOptions } from '../index.ts';

/** A request that the tiny server got. */
export interface Got {
  readonly method: string;
  /** Path with query. */
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  /** The parsed body; undefined when it is not JSON. */
  readonly json: unknown;
}

/** What to answer: metadata of a good answer, or a whole one. */
export type Reply = { readonly metadata: unknown; readonly etag?: string; readonly operation?: string } | RawReply;

export interface RawReply {
  readonly status: number;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An http server on a unix socket that answers by `METHOD /path`, and remembers what it was asked. */
export class TinyServer implements AsyncDisposable {
  readonly requests: Got[] = [];
  readonly replies: Map<string, Reply | ((got: Got) => Reply | Promise<Reply>)> = new Map();
  readonly server: Server;
  readonly socket: string;
  readonly #folder: string;
  readonly #clients: Client[] = [];
  readonly #sockets = new Set<Socket>();

  private constructor(folder: string) {
    this.#folder = folder;
    this.socket = join(folder, 'unix.socket');
    this.server = createServer((request, response) => void this.#answer(request, response));
    this.server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  static async start(): Promise<TinyServer> {
    const tiny = new TinyServer(mkdtempSync(join(tmpdir(), 'keelson-tiny-')));
    tiny.server.listen(tiny.socket);
    await once(tiny.server, 'listening');
    tiny.reply('GET /1.0', { metadata: { api_extensions: ['storage', 'projects'], environment: { addresses: [] } } });
    return tiny;
  }

  /** Connections that are open. */
  get connections(): number {
    return this.#sockets.size;
  }

  client(options: ClientOptions = {}): Client {
    const client = new Client({ endpoint: `unix:${this.socket}`, ...options });
    this.#clients.push(client);
    return client;
  }

  /** `key` is the method and the path with query. */
  reply(key: string, reply: Reply | ((got: Got) => Reply | Promise<Reply>)): void {
    this.replies.set(key, reply);
  }

  /** What was asked, as `METHOD /path`. */
  get asked(): string[] {
    return this.requests.map(({ method, url }) => `${method} ${url}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) await client.close();
    for (const socket of this.#sockets) socket.destroy();
    this.server.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const { method = '', url = '', headers } = request;
    const got = { method, url, headers, text, json: parse(text) };
    this.requests.push(got);
    const found = this.replies.get(`${method} ${url}`);
    const reply = typeof found === 'function' ? await found(got) : (found ?? error(404, 'Not found'));
    if ('status' in reply) {
      response.writeHead(reply.status, reply.headers).end(reply.body);
      return;
    }
    const { metadata, etag, operation = '' } = reply;
    const type = operation === '' ? 'sync' : 'async';
    const code = operation === '' ? 200 : 202;
    response.writeHead(code, { 'Content-Type': 'application/json', ...(etag === undefined ? {} : { ETag: etag }) });
    response.end(JSON.stringify({ type, status_code: operation === '' ? 200 : 100, operation, metadata }));
  }
}

/** An error in the API's form. */
export function error(status: number, message: string): RawReply {
  return { status, body: JSON.stringify({ type: 'error', error: message, error_code: status }) };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
