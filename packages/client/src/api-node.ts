import type { Connection, RequestOptions } from './connection.ts';

/** Answer of a low-level request: status, headers and body as they came; errors are not thrown. */
export interface ApiResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The body as it came. */
  bytes(): Promise<Uint8Array>;
  /** The body as UTF-8. */
  text(): Promise<string>;
  /** The parsed body. @throws SyntaxError when it is not JSON */
  json<T = unknown>(): Promise<T>;
}

export interface ApiMethods {
  get(options?: RequestOptions): Promise<ApiResponse>;
  post(options?: RequestOptions): Promise<ApiResponse>;
  put(options?: RequestOptions): Promise<ApiResponse>;
  patch(options?: RequestOptions): Promise<ApiResponse>;
  delete(options?: RequestOptions): Promise<ApiResponse>;
  /** The next URL part by call, for a part that is also a method: `api.instances.part('get')`. */
  part(name: string): ApiNode;
  /** The path this node stands for. */
  readonly path: string;
}

/** URL parts that the API has names for, so that editors complete them. */
type ApiPart =
  | `${'instance' | 'container' | 'virtual-machine' | 'image' | 'profile' | 'project' | 'network'}s`
  | 'storage-pools'
  | 'storage-volumes'
  | 'operations'
  | 'certificates'
  | 'cluster'
  | 'members'
  | 'warnings'
  | 'resources'
  | 'events'
  | 'metadata'
  | 'configuration'
  | 'templates'
  | 'state'
  | 'snapshots'
  | 'backups'
  | 'logs'
  | 'files'
  | 'exec'
  | 'console'
  | 'export'
  | 'aliases'
  | 'secret'
  | 'refresh'
  | 'volumes'
  | 'custom'
  | 'leases'
  | 'wait';

/**
 * A URL that grows by one part with each attribute or index, and can be requested. Where the compiler asks for a check
 * of indexes (`noUncheckedIndexedAccess`), `part('c1')` does what `['c1']` does.
 */
export type ApiNode = ApiMethods & { readonly [part in ApiPart]: ApiNode } & { readonly [part: string]: ApiNode };

const VERBS = ['get', 'post', 'put', 'patch', 'delete'] as const;

/**
 * Node at `path`. `node.instances['c1'].get()` requests `<path>/instances/c1`. A part whose name is also a method
 * (`get`, `path`, …) is reached with `part(name)`, and `node['get']['x']` works too: methods have parts of their own.
 */
export function apiNode(connection: Connection, path: string): ApiNode {
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
  return new Proxy({} as ApiNode, {
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
