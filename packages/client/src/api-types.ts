import type { BodyOf, Operation, QueryOf, ResponseOf, RouteId, Routes } from '@keelson/api';
import type { QueryValues, RequestOptions } from './connection.ts';

type Route = Routes[RouteId];
type Path = Route['path'];
type Verb = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Parts that may follow a path, as the routes write them: names, and parameters such as `:name`. */
type Next<P extends string> = Path extends infer R
  ? R extends `${P}/${infer Rest}`
    ? Rest extends `${infer Head}/${string}`
      ? Head
      : Rest
    : never
  : never;

/** Older names of collections. */
type Alias<P extends string> = P extends '/1.0' ? 'containers' | 'virtual-machines' : never;
type Name<P extends string> = Exclude<Next<P>, `:${string}`> | Alias<P>;
type Parameter<P extends string> = Extract<Next<P>, `:${string}`>;

type Below<P extends string, Part extends string> = ApiNode<
  Part extends Name<P>
    ? Part extends Alias<P>
      ? '/1.0/instances'
      : `${P}/${Part}`
    : [Parameter<P>] extends [never]
      ? 'unknown'
      : `${P}/${Parameter<P>}`
>;

type RouteAt<P extends string, V extends Verb> = Extract<Route, { readonly path: P; readonly method: V }>;

/** A collection answers with URLs, or with records where the query asks for `recursion`. */
type Chosen<Metadata, Query> = string[] extends Metadata
  ? Query extends { readonly recursion: 1 | 2 | '1' | '2' }
    ? Exclude<Metadata, string[]>
    : string[]
  : Metadata;

type MetadataAt<P extends string, V extends Verb, Query> = [RouteAt<P, V>] extends [never]
  ? unknown
  : RouteAt<P, V> extends infer R extends Route
    ? R['kind'] extends 'operation'
      ? Operation
      : R['kind'] extends 'sync'
        ? Chosen<ResponseOf<R>, Query>
        : unknown
    : never;

/** The body of an answer, which is JSON in the API's envelope. An error has `type` `error` and no metadata. */
export interface ApiBody<Metadata = unknown> {
  /** `sync`: done; `async`: `operation` goes on in the background; `error`. */
  readonly type: 'sync' | 'async' | 'error';
  /** `status_code` in words. */
  readonly status: string;
  /** 200 done, 100 operation created; 0 with an error. */
  readonly status_code: number;
  /** URL path of the background operation; empty without one. */
  readonly operation: string;
  /** HTTP status of an error, else 0. */
  readonly error_code: number;
  /** What went wrong; empty when nothing did. */
  readonly error: string;
  /** What was asked for: typed by the route. */
  readonly metadata: Metadata;
}

/** Answer of a low-level request: status, headers and body as they came; errors are not thrown. */
export interface ApiResponse<Metadata = unknown> {
  /** HTTP status. */
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body as it came. */
  bytes(): Promise<Uint8Array>;
  /** The body as UTF-8. */
  text(): Promise<string>;
  /** The parsed body; its type follows the route, or is the one given. @throws SyntaxError when it is not JSON */
  json<T = ApiBody<Metadata>>(): Promise<T>;
}

/** What a low-level request takes: body and query of its route; anything where the path is none that the API names. */
export type ApiOptions<P extends string, V extends Verb> = Omit<RequestOptions, 'json' | 'query'> & {
  /** JSON body. */
  readonly json?: [RouteAt<P, V>] extends [never] ? unknown : BodyOf<RouteAt<P, V>>;
  /** Query of the URL. */
  readonly query?: QueryValues & ([RouteAt<P, V>] extends [never] ? unknown : QueryOf<RouteAt<P, V>>);
};

type QueryIn<Options> = Options extends { readonly query: infer Query } ? Query : undefined;

/** One request of a node; `Options` is inferred, so that `recursion` decides the answer's type. */
export type ApiCall<P extends string, V extends Verb> = <const Options extends ApiOptions<P, V>>(
  options?: Options,
) => Promise<ApiResponse<MetadataAt<P, V, QueryIn<Options>>>>;

/** What every node can do. Each request rejects with ClientConnectionFailed when no answer comes. */
export interface ApiMethods<P extends string = 'unknown'> {
  /** `GET` of the path. */
  readonly get: ApiCall<P, 'GET'>;
  /** `POST` to the path. */
  readonly post: ApiCall<P, 'POST'>;
  /** `PUT` of the path. */
  readonly put: ApiCall<P, 'PUT'>;
  /** `PATCH` of the path. */
  readonly patch: ApiCall<P, 'PATCH'>;
  /** `DELETE` of the path. */
  readonly delete: ApiCall<P, 'DELETE'>;
  /** The next URL part by call, for a part that is also a method: `api.instances.part('get')`. */
  part<Part extends string>(name: Part): Below<P, Part>;
  /** The path this node stands for. */
  readonly path: string;
}

/**
 * A URL that grows by one part with each attribute or index, and can be requested. `P` is the path as the API's routes
 * write it: names complete, bodies and answers have their route's types; any other path has `unknown` ones. Where the
 * compiler asks for a check of indexes (`noUncheckedIndexedAccess`), `part('c1')` does what `['c1']` does.
 */
export type ApiNode<P extends string = 'unknown'> = ApiMethods<P> & { readonly [K in Name<P>]: Below<P, K> } & {
  readonly [part: string]: Below<P, ':'>;
};
