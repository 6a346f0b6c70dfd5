import type { Readable } from 'node:stream';
import type { WebSocket } from 'ws';
import { syncBody } from './envelope.ts';
import { etagOf } from './etag.ts';
import type { OperationRecord, StartedOperation } from '../services/operations/contract.ts';

export type Headers = Readonly<Record<string, string>>;

/** What a handler answers; the front door turns it into LXD's wire form. */
export type Reply =
  | {
      readonly kind: 'json';
      readonly json: string;
      readonly status: number;
      readonly etag?: readonly unknown[];
      readonly headers?: Headers;
    }
  | {
      readonly kind: 'value';
      readonly value: unknown;
      readonly status: number;
      readonly etag?: readonly unknown[];
      readonly headers?: Headers;
    }
  | { readonly kind: 'body'; readonly body: Uint8Array; readonly headers?: Headers }
  | { readonly kind: 'operation'; readonly record: OperationRecord }
  | {
      readonly kind: 'raw';
      readonly body: Readable | Uint8Array | string;
      readonly status: number;
      readonly headers: Headers;
    }
  | { readonly kind: 'websocket'; readonly accept: (socket: WebSocket) => void };

/** 200 with a record; `etag` is its writable part (see `etagOf`). */
export function sync(value: unknown, etag?: readonly unknown[]): Reply {
  return { kind: 'value', value, status: 200, ...(etag === undefined ? {} : { etag }) };
}

/** 200 with a record that is JSON text already. */
export function syncJson(json: string, etag?: readonly unknown[]): Reply {
  return { kind: 'json', json, status: 200, ...(etag === undefined ? {} : { etag }) };
}

/** 200 with a record as it goes over the wire: keep the reply and answer with it as long as the record is the same. */
export function prepared(json: string, etag?: readonly unknown[]): Reply {
  const body = Buffer.from(syncBody(json));
  return etag === undefined ? { kind: 'body', body } : { kind: 'body', body, headers: { ETag: `"${etagOf(etag)}"` } };
}

/** 200 with nothing to tell. */
export function empty(): Reply {
  return { kind: 'json', json: '{}', status: 200 };
}

/** 201 with the URL of what was made. */
export function created(location: string): Reply {
  return { kind: 'json', json: 'null', status: 201, headers: { Location: location } };
}

/** 202 with a background operation; secrets in a started operation's metadata are shown here only. */
export function operation(started: StartedOperation | OperationRecord): Reply {
  return { kind: 'operation', record: 'record' in started ? started.record : started };
}

/** Any other body: a file, a multipart stream, text. Give `Content-Type` and, when known, `Content-Length`. */
export function raw(body: Readable | Uint8Array | string, headers: Headers, status = 200): Reply {
  return { kind: 'raw', body, status, headers };
}

/** Upgrades the connection and hands the socket over. Everything that can fail must have been checked before. */
export function websocket(accept: (socket: WebSocket) => void): Reply {
  return { kind: 'websocket', accept };
}
