import type { BodyOf, ParamsOf, RouteDefinition } from '@keelson/api';
import type { IncomingMessage } from 'node:http';
import type { Precondition } from '../core/precondition.ts';
import type { Caller } from '../services/certificates/caller.ts';

/** What a handler gets: everything checked and parsed by the front door. */
export interface RouteRequest<R extends RouteDefinition = RouteDefinition> {
  readonly caller: Caller;
  /** Project the request is about; exists, and the caller may use it. `default` unless `?project=` says otherwise. */
  readonly project: string;
  /** `?all-projects=true`; lists then show only projects the caller may use (`mayUseProject`). */
  readonly allProjects: boolean;
  /** `?recursion=`: 0 URLs, 1 records, 2 full records. */
  readonly recursion: 0 | 1 | 2;
  /** `?filter=`, as written; empty without one. */
  readonly filter: string;
  readonly params: ParamsOf<R>;
  /** First value of every query key. */
  readonly query: Readonly<Record<string, string | undefined>>;
  /** JSON body as the route's schema has it, nulls left out as Go leaves them. Undefined where `raw` carries bytes instead. */
  readonly body: R extends { readonly rawBody: true } ? BodyOf<R> | undefined : BodyOf<R>;
  /** Throws 412 when the caller's `If-Match` names another state; call it inside the write. */
  readonly ifMatch: Precondition;
  /** Set when the path said `/1.0/containers` or `/1.0/virtual-machines`. */
  readonly instanceType: 'container' | 'virtual-machine' | undefined;
  /** Aborted when the client goes away before the answer is sent. */
  readonly signal: AbortSignal;
  /** Headers, and the body stream of a route that declares `rawBody`. */
  readonly raw: IncomingMessage;
}

/** Who changes something and what they demand of the current state, as services take it. */
export function changeOptions(request: Pick<RouteRequest, 'caller' | 'ifMatch'>): {
  readonly requestor: Caller['requestor'];
  readonly precondition: Precondition;
} {
  return { requestor: request.caller.requestor, precondition: request.ifMatch };
}
