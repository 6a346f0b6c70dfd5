import type { RouteDefinition } from '@keelson/api';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { errors, isKeelsonError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Caller } from '../services/certificates/caller.ts';
import { checkAccess, type ProjectLookup } from './access.ts';
import { BodyParser } from './body.ts';
import { errorBody, operationBody, syncBody } from './envelope.ts';
import { etagOf, preconditionOf } from './etag.ts';
import { checkOrigin } from './origin.ts';
import { parseQuery } from './query.ts';
import { Router } from './router.ts';
import type { Reply } from './reply.ts';
import type { RouteRequest } from './request.ts';
import type { RouteBinding } from './route.ts';
import { hasJson } from './sniff.ts';
import { checkTarget } from './target.ts';

/** Bytes of an unwanted body that are taken in: who still sends it reads the answer instead of a broken connection. */
const DRAINED = 256 * 1024;
/** Milliseconds such a body may take to arrive; then the connection is cut. */
const DRAIN_TIMEOUT = 60_000;

export interface FrontDoorOptions {
  readonly bindings: readonly RouteBinding[];
  readonly projects: ProjectLookup;
  readonly log: Log;
}

/** From a request line to a reply, the same for every listener: route, caller, access, body, handler, envelope. */
export class FrontDoor {
  readonly #router: Router;
  readonly #bodies = new BodyParser();
  readonly #projects: ProjectLookup;
  readonly #log: Log;

  constructor(options: FrontDoorOptions) {
    this.#router = new Router(options.bindings);
    this.#projects = options.projects;
    this.#log = options.log;
  }

  /** Answers one request; never rejects. */
  async serve(request: IncomingMessage, response: ServerResponse, caller: Caller): Promise<void> {
    const gone = new AbortController();
    response.once('close', () => {
      if (!response.writableFinished) gone.abort(errors.unavailable('Client went away'));
    });
    try {
      const reply = await this.answer(request, caller, gone.signal);
      if (reply.kind === 'websocket') throw errors.badRequest('This endpoint needs a websocket upgrade');
      await send(reply, response);
    } catch (error) {
      if (gone.signal.aborted) this.#log.debug('Client went away', { method: request.method, url: request.url });
      else this.#report(error, request);
      const unread = !request.complete && !drain(request);
      sendError(error, response, { unread });
    }
  }

  /** The reply to a request. @throws what the caller did wrong, or what failed. */
  async answer(raw: IncomingMessage, caller: Caller, signal: AbortSignal): Promise<Reply> {
    if (caller.kind !== 'unix') checkOrigin(raw);
    const url = raw.url ?? '/';
    const mark = url.indexOf('?');
    const { binding, params, instanceType } = this.#router.find(
      raw.method ?? 'GET',
      mark === -1 ? url : url.slice(0, mark),
    );
    const query = parseQuery(mark === -1 ? '' : url.slice(mark + 1));
    checkAccess(binding.route, caller, query, this.#projects);
    checkTarget(binding.route, query.all['target']);
    const request: RouteRequest = {
      caller,
      project: query.project,
      allProjects: query.allProjects,
      recursion: query.recursion,
      filter: query.filter,
      params,
      query: query.all,
      body: (await this.#body(binding.route, raw)) as undefined,
      ifMatch: preconditionOf(raw.headers['if-match']),
      instanceType,
      signal,
      raw,
    };
    return binding.handle(request);
  }

  async #body(route: RouteDefinition, raw: IncomingMessage): Promise<unknown> {
    if (route.body === undefined) return undefined;
    if (route.rawBody === true && !(await hasJson(raw))) return undefined;
    return this.#bodies.read(raw, route.body);
  }

  #report(error: unknown, request: IncomingMessage): void {
    if (isKeelsonError(error) && error.code !== 'internal') return;
    this.#log.error('Request failed', { method: request.method, url: request.url, error });
  }
}

async function send(reply: Exclude<Reply, { kind: 'websocket' }>, response: ServerResponse): Promise<void> {
  switch (reply.kind) {
    case 'body':
      return sendJson(response, 200, reply.body, reply.headers);
    case 'json':
      return sendJson(response, reply.status, syncBody(reply.json), { ...etagHeader(reply.etag), ...reply.headers });
    case 'value': {
      const headers = { ...etagHeader(reply.etag), ...reply.headers };
      return sendJson(response, reply.status, syncBody(JSON.stringify(reply.value)), headers);
    }
    case 'operation':
      return sendJson(response, 202, operationBody(reply.record), { Location: `/1.0/operations/${reply.record.id}` });
    case 'raw':
      response.writeHead(reply.status, reply.headers);
      if (typeof reply.body === 'string' || reply.body instanceof Uint8Array) {
        response.end(reply.body);
        return;
      }
      return pipeline(reply.body, response);
  }
}

function etagHeader(source: readonly unknown[] | undefined): Readonly<Record<string, string>> {
  return source === undefined ? {} : { ETag: `"${etagOf(source)}"` };
}

function sendJson(
  response: ServerResponse,
  status: number,
  body: string | Uint8Array,
  headers?: Readonly<Record<string, string>>,
): void {
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    ...headers,
  });
  response.end(body);
}

/** Takes in what is left of a small body. @returns false when it is large; one of unknown size ends the connection once it is. */
function drain(request: IncomingMessage): boolean {
  const size = Number(request.headers['content-length'] ?? 0);
  if (!(size <= DRAINED) || request.destroyed) return false;
  const timer = setTimeout(() => request.destroy(), DRAIN_TIMEOUT);
  request.once('close', () => clearTimeout(timer));
  let taken = 0;
  request.on('data', (chunk: Buffer) => {
    taken += chunk.length;
    if (taken > DRAINED) request.destroy();
  });
  request.resume();
  return true;
}

/** `unread`: the body is still coming; the connection ends with the answer instead of taking it all in. */
export function sendError(error: unknown, response: ServerResponse, { unread }: { unread: boolean }): void {
  if (response.headersSent) {
    response.destroy(); // a stream broke off: the client must not take it for complete
    return;
  }
  const { status, body } = errorBody(error);
  sendJson(response, status, body, {
    'X-Content-Type-Options': 'nosniff',
    ...(unread ? { Connection: 'close' } : {}),
  });
}
