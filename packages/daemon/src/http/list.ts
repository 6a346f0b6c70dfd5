import type { RouteDefinition } from '@keelson/api';
import type { RecordList } from '../core/record-list.ts';
import { syncBody } from './envelope.ts';
import { compileFilter } from './filter.ts';
import { syncJson, type Reply } from './reply.ts';
import type { RouteRequest } from './request.ts';
import { bind, type RouteBinding } from './route.ts';

const CACHE_BYTES = 8 * 1024 * 1024;

/**
 * Ties a collection to its endpoint: URLs without recursion, records with it, `filter` applied to both. The handler
 * only says which list (of which project, plain or full for `recursion` 2); whole answers are kept per version.
 */
export function bindList<R extends RouteDefinition>(
  route: R,
  listOf: (request: RouteRequest<R>) => RecordList | Promise<RecordList>,
): RouteBinding {
  const bodies = new BodyCache(CACHE_BYTES);
  return bind(route, (request) => {
    const list = listOf(request);
    if (list instanceof Promise) return list.then((found) => collectionReply(request, found, bodies));
    return collectionReply(request, list, bodies);
  });
}

type ListRequest = Pick<RouteRequest, 'recursion' | 'filter'>;

function collectionReply(request: ListRequest, list: RecordList, bodies: BodyCache): Reply {
  if (request.filter !== '') return syncJson(filtered(request, list));
  const body = bodies.get(`${request.recursion}|${list.version}`, () => Buffer.from(syncBody(joined(request, list))));
  return { kind: 'body', body };
}

function joined(request: ListRequest, list: RecordList): string {
  return request.recursion === 0 ? JSON.stringify(list.urls()) : `[${list.json().join(',')}]`;
}

function filtered(request: ListRequest, list: RecordList): string {
  const matches = compileFilter(request.filter);
  const shown = request.recursion === 0 ? list.urls().map((url) => JSON.stringify(url)) : list.json();
  const values = list.values();
  return `[${shown.filter((_, index) => matches(values[index] ?? {})).join(',')}]`;
}

/** Whole answers by version; the oldest go when they take too much memory. */
class BodyCache {
  readonly #limit: number;
  readonly #bodies = new Map<string, Buffer>();
  #bytes = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(key: string, make: () => Buffer): Buffer {
    const known = this.#bodies.get(key);
    if (known !== undefined) return known;
    const body = make();
    this.#bodies.set(key, body);
    this.#bytes += body.length;
    for (const [old, { length }] of this.#bodies) {
      if (this.#bytes <= this.#limit || old === key) break;
      this.#bodies.delete(old);
      this.#bytes -= length;
    }
    return body;
  }
}
