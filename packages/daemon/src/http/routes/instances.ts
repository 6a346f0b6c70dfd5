import { routes } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import { isAdmin, mayUseProject } from '../../services/certificates/caller.ts';
import type { InstanceService } from '../../services/instances/instance-service.ts';
import type { ListScope } from '../../services/instances/reader.ts';
import { bindList } from '../list.ts';
import { empty, operation, raw, sync, prepared, type Reply } from '../reply.ts';
import { changeOptions, type RouteRequest } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';

type Parts = Pick<
  InstanceService,
  'backupImport' | 'reader' | 'creator' | 'changer' | 'runner' | 'lifecycle' | 'snapshots' | 'executor'
>;

/** Requestor, precondition and the kind of instance the path names. */
export function instanceOptions(request: Pick<RouteRequest, 'caller' | 'ifMatch' | 'instanceType'>) {
  return { ...changeOptions(request), type: request.instanceType };
}

/** The same, and whether the caller may have this server connect to others. */
export function reachOptions(request: Pick<RouteRequest, 'caller' | 'ifMatch' | 'instanceType'>) {
  return { ...instanceOptions(request), mayFetch: isAdmin(request.caller) };
}

/** Instances themselves: `/1.0/instances` and `/1.0/instances/<name>`. */
export function instanceRoutes(instances: Parts): RouteBinding[] {
  return [
    ...collectionRoutes(instances),
    ...objectRoutes(instances),
    ...stateRoutes(instances),
    ...commandRoutes(instances),
  ];
}

function collectionRoutes({ reader, creator, backupImport, runner }: Parts): RouteBinding[] {
  return [
    bindList(routes['instances.list'], (request) => {
      const scope = scopeOf(request);
      return request.recursion === 2 ? reader.listFull(scope) : reader.list(scope);
    }),
    bind(routes['instances.create'], async (request) => {
      if (request.body === undefined)
        return operation(await backupImport.start(request.project, uploadOf(request), instanceOptions(request)));
      const body = request.instanceType === undefined ? request.body : { ...request.body, type: request.instanceType };
      const by = {
        ...instanceOptions(request),
        mayUseProject: (project: string) => mayUseProject(request.caller, project),
        mayFetch: isAdmin(request.caller),
      };
      return operation(await creator.create(request.project, body, by));
    }),
    bind(routes['instances.put-all'], (request) =>
      operation(runner.changeAll(request.project, request.body.state ?? { action: '' }, instanceOptions(request))),
    ),
  ];
}

function objectRoutes({ reader, changer, lifecycle, snapshots }: Parts): RouteBinding[] {
  /** Whole answers, kept as long as the rendered record is. */
  const replies = new WeakMap<object, Reply>();
  return [
    bind(routes['instances.get'], ({ project, params, recursion, instanceType }) => {
      const { instance, text, etag } = reader.get(project, params.name, instanceType);
      if (recursion !== 0) return reader.getFull(project, params.name, instanceType).then((full) => sync(full, etag));
      const known = replies.get(instance);
      if (known !== undefined) return known;
      const reply = prepared(text, etag);
      replies.set(instance, reply);
      return reply;
    }),
    bind(routes['instances.put'], (request) => {
      const { project, params, body } = request;
      const snapshot = body.restore ?? '';
      if (snapshot !== '')
        return operation(snapshots.restore(project, params.name, snapshot, instanceOptions(request)));
      return operation(changer.put(project, params.name, body, instanceOptions(request)));
    }),
    bind(routes['instances.patch'], async (request) => {
      await changer.patch(request.project, request.params.name, request.body, instanceOptions(request));
      return empty();
    }),
    bind(routes['instances.post'], (request) =>
      operation(lifecycle.post(request.project, request.params.name, request.body, reachOptions(request))),
    ),
    bind(routes['instances.delete'], (request) =>
      operation(lifecycle.delete(request.project, request.params.name, instanceOptions(request))),
    ),
  ];
}

function stateRoutes({ reader, runner }: Parts): RouteBinding[] {
  return [
    bind(routes['instances.state'], async ({ project, params, instanceType }) =>
      sync(await reader.state(project, params.name, instanceType)),
    ),
    bind(routes['instances.put-state'], (request) =>
      operation(runner.change(request.project, request.params.name, request.body, instanceOptions(request))),
    ),
  ];
}

function commandRoutes({ executor }: Parts): RouteBinding[] {
  return [
    bind(routes['instances.exec'], (request) =>
      operation(executor.exec(request.project, request.params.name, request.body, instanceOptions(request))),
    ),
    bind(routes['instances.console'], (request) =>
      operation(executor.console(request.project, request.params.name, request.body, instanceOptions(request))),
    ),
    bind(routes['instances.console-log'], async ({ project, params, instanceType }) =>
      raw(await executor.consoleLog(project, params.name, instanceType), {
        'Content-Type': 'application/octet-stream',
        'Content-Disposition': 'inline;filename=console.log',
      }),
    ),
    bind(routes['instances.clear-console'], async (request) => {
      await executor.clearConsoleLog(request.project, request.params.name, instanceOptions(request));
      return empty();
    }),
  ];
}

function scopeOf({ project, allProjects, caller, instanceType, query }: RouteRequest): ListScope {
  return {
    project: allProjects ? undefined : project,
    may: (name) => mayUseProject(caller, name),
    mayKey: caller.kind === 'restricted' ? caller.projects.join(',') : '',
    type: instanceType ?? typeOf(query['instance-type']),
    noun: instanceType === undefined ? 'instances' : `${instanceType}s`,
  };
}

function typeOf(text: string | undefined): 'container' | 'virtual-machine' | undefined {
  if (text === undefined || text === '') return undefined;
  if (text === 'container' || text === 'virtual-machine') return text;
  throw errors.badRequest('Invalid instance type');
}

function uploadOf({ raw: { headers }, raw: body, signal }: RouteRequest) {
  const header = (name: string): string => {
    const value = headers[name];
    return (Array.isArray(value) ? value[0] : value) ?? '';
  };
  return { body, name: header('x-lxd-name'), pool: header('x-lxd-pool'), signal };
}
