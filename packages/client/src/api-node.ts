import type { ApiNode, ApiResponse } from './api-types.ts';
import type { Connection, RequestOptions } from './connection.ts';

const VERBS = ['get', 'post', 'put', 'patch', 'delete'] as const;

/**
 * Node at `path`. `node.instances['c1'].get()` requests `<path>/instances/c1`. A part whose name is also a method
 * (`get`, `path`, …) is reached with `part(name)`, and `node['get']['x']` works too: methods have parts of their own.
 */
export function apiNode<P extends string = 'unknown'>(connection: Connection, path: string): ApiNode<P> {
  const child = (name: string): ApiNode => apiNode(connection, `${path}/${encodeURIComponent(name)}`);
  const own = (name: string): unknown => {
    if (name === 'path') return path;
    if (name === 'part') return child;
    const verb = VERBS.find((one) => one === name);
    if (verb === undefined) return undefined;
    const call = (options?: RequestOptions): Promise<ApiResponse> =>
      respond(connection, verb.toUpperCase(), path, options);
    const below = child(name);
    return new Proxy(call, { get: (_call, part) => (typeof part === 'string' ? below[part] : undefined) });
  };
  return new Proxy({} as ApiNode<P>, {
    get: (_target, name) => {
      // `then` stays undefined so that a node is never taken for a promise.
      if (typeof name === 'symbol' || name === 'then') return undefined;
      return own(name) ?? child(name);
    },
  });
}

/** One low-level request. */
export async function respond(
  connection: Connection,
  method: string,
  path: string,
  options?: RequestOptions,
): Promise<ApiResponse> {
  const response = await connection.send(method, path === '' ? '/' : path, options);
  const bytes = await response.bytes();
  const text = (): string => new TextDecoder().decode(bytes);
  return {
    status: response.status,
    headers: response.headers,
    bytes: async () => bytes,
    text: async () => text(),
    json: async <T>() => JSON.parse(text()) as T,
  };
}
