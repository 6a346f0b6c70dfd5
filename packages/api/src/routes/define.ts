import { Type, type Static, type TSchema } from 'typebox';

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/**
 * How an endpoint answers: `sync` with the envelope at once, `operation` with 202 and a background operation,
 * `raw` with bytes, `websocket` by upgrading.
 */
export type RouteKind = 'sync' | 'operation' | 'raw' | 'websocket';

/** Who may call: anybody, any trusted certificate (within its projects), or the full administrator. */
export type Access = 'untrusted' | 'user' | 'admin';

/** One endpoint, declared once; server, client, OpenAPI and tests derive from it. */
export interface RouteDefinition {
  /** `<noun>.<verb>`, unique. */
  readonly id: string;
  readonly method: Method;
  /** Parameters are written `:name`; a trailing slash is never part of it. */
  readonly path: string;
  readonly kind: RouteKind;
  /** Second way the endpoint may answer, chosen by the request. */
  readonly also?: RouteKind;
  readonly access: Access;
  /** API extension the endpoint came with; absent for what every server has. */
  readonly extension?: string;
  /** Answers 201 with `Location` when it succeeds at once. */
  readonly creates?: true;
  /** Record carries an ETag; a change honours `If-Match`. */
  readonly etag?: true;
  /** Last parameter may hold slashes. */
  readonly rest?: true;
  /** Takes a body that is not (or not only) JSON. */
  readonly rawBody?: true;
  readonly query?: TSchema;
  readonly body?: TSchema;
  /** Schema of `metadata` in the envelope; absent where it is empty. Routes of kind `operation` answer with `Operation`. */
  readonly response?: TSchema;
}

/** Keeps the literal types of one endpoint's declaration. */
export function defineRoute<const R extends RouteDefinition>(route: R): R {
  return route;
}

const text = Type.Optional(Type.String());

/** `project` of a request about one object or one collection. */
export const ProjectQuery = Type.Object({ project: text });
/** `target` names a cluster member. */
export const TargetQuery = Type.Object({ target: text });
export const ScopeQuery = Type.Object({ project: text, target: text });
/** Of a collection: `recursion` 0 (URLs), 1 (records) or 2 (full records). */
export const ListQuery = Type.Object({ recursion: text });
export const ProjectListQuery = Type.Object({ recursion: text, project: text });
export const ScopeListQuery = Type.Object({ recursion: text, project: text, target: text });
export const AllProjectsListQuery = Type.Object({ recursion: text, project: text, 'all-projects': text, filter: text });
export const VolumeListQuery = Type.Object({ ...AllProjectsListQuery.properties, target: text });
export const FilesQuery = Type.Object({ project: text, path: text });
export const WaitQuery = Type.Object({ timeout: text, secret: text, project: text });
export const SecretQuery = Type.Object({ secret: text, project: text });
export const EventsQuery = Type.Object({ type: text, project: text, 'all-projects': text, since: text });

/** Answer of a collection: URLs without recursion, records with it. */
export function ListOf<T extends TSchema>(item: T) {
  return Type.Union([Type.Array(Type.String()), Type.Array(item)]);
}

/** URL paths. */
export const UrlList = Type.Array(Type.String());

type PathParams<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | PathParams<`/${Rest}`>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never;

/** Path parameters of an endpoint by name. */
export type ParamsOf<R extends RouteDefinition> = { [K in PathParams<R['path']>]: string };
/** JSON body of an endpoint; undefined where it takes none. */
export type BodyOf<R extends RouteDefinition> = R extends { readonly body: infer B extends TSchema }
  ? Static<B>
  : undefined;
/** Query of an endpoint as a caller writes it. */
export type QueryOf<R extends RouteDefinition> = R extends { readonly query: infer Q extends TSchema }
  ? { [K in keyof Static<Q>]?: QueryValue }
  : Record<string, QueryValue>;
/** `metadata` of an endpoint's synchronous answer. */
export type ResponseOf<R extends RouteDefinition> = R extends { readonly response: infer S extends TSchema }
  ? Static<S>
  : void;

export type QueryValue = string | number | boolean | undefined;
