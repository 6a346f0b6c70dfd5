import { routes } from '@keelson/api';
import { errors, type KeelsonError } from '../../core/errors.ts';
import { isAdmin, type Caller } from '../../services/certificates/caller.ts';
import type { OperationRecord, Operations } from '../../services/operations/contract.ts';
import { compileFilter } from '../filter.ts';
import { empty, sync, websocket } from '../reply.ts';
import type { RouteRequest } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';
import { operationUrl } from '../envelope.ts';

type OperationsApi = Pick<Operations, 'get' | 'list' | 'wait' | 'cancel' | 'accepts' | 'connect'>;

/** Close code of a websocket that brought a wrong secret: policy violation. */
const REFUSED = 1008;

export function operationRoutes(operations: OperationsApi): RouteBinding[] {
  return [
    bind(routes['operations.list'], (request) => sync(listing(visible(operations, request), request))),
    bind(routes['operations.get'], ({ caller, params }) => sync(find(operations, caller, params.id))),
    bind(routes['operations.delete'], async ({ caller, params }) => {
      find(operations, caller, params.id);
      await operations.cancel(params.id);
      return empty();
    }),
    bind(routes['operations.wait'], async ({ caller, params, query, signal }) => {
      if (caller.kind === 'untrusted' || caller.kind === 'metrics') throw errors.unauthorized('not authorized');
      find(operations, caller, params.id);
      const record = await operations.wait(params.id, timeoutOf(query['timeout']), signal);
      if (record === undefined) throw notFound();
      return sync(record);
    }),
    bind(routes['operations.websocket'], ({ params, query }) => {
      const { secret } = query;
      if (operations.get(params.id) === undefined) throw notFound();
      if (secret === undefined || secret === '') throw errors.badRequest('Missing websocket secret');
      if (!operations.accepts(params.id, secret)) throw errors.unauthorized('not authorized');
      return websocket((socket) => {
        if (!operations.connect(params.id, secret, socket)) socket.close(REFUSED, 'not authorized');
      });
    }),
  ];
}

/** LXD groups the list by status, in lower case: `{ running: […], success: […] }`. */
function listing(records: readonly OperationRecord[], request: RouteRequest): Record<string, unknown[]> {
  const matches = compileFilter(request.filter);
  const groups: Record<string, unknown[]> = {};
  for (const record of records.filter(matches)) {
    const group = (groups[record.status.toLowerCase()] ??= []);
    group.push(request.recursion === 0 ? operationUrl(record.id) : record);
  }
  return groups;
}

function visible(
  operations: OperationsApi,
  { caller, project, allProjects }: RouteRequest,
): readonly OperationRecord[] {
  if (!allProjects) return operations.list(project);
  if (isAdmin(caller)) return operations.list();
  return caller.projects.flatMap((own) => operations.list(own));
}

/** @throws not-found, also for an operation of a project the caller may not use. */
function find(operations: OperationsApi, caller: Caller, id: string): OperationRecord {
  const record = isAdmin(caller)
    ? operations.get(id)
    : caller.projects.map((project) => operations.get(id, project)).find((found) => found !== undefined);
  if (record === undefined) throw notFound();
  return record;
}

/** Seconds; -1 (no limit) without a value. @throws bad-request */
function timeoutOf(text: string | undefined): number {
  if (text === undefined || text === '') return -1;
  const seconds = Number(text);
  if (!Number.isInteger(seconds))
    throw errors.badRequest(`Invalid timeout "${text}": expected seconds, or -1 for no limit`);
  return seconds;
}

function notFound(): KeelsonError {
  return errors.notFound('Operation not found');
}
