import { routes } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import { isAdmin, mayUseProject, type Caller } from '../../services/certificates/caller.ts';
import type { StorageVolumes, VolumeUpload } from '../../services/storage/contract.ts';
import { bindList } from '../list.ts';
import { created, empty, operation, type Reply, sync } from '../reply.ts';
import { changeOptions, type RouteRequest } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';

export function storageVolumeRoutes(volumes: StorageVolumes): RouteBinding[] {
  return [
    bindList(routes['storage-volumes.list'], (request) => volumes.list(request.params.pool, projectsOf(request))),
    bindList(routes['storage-volumes.list-type'], (request) =>
      volumes.list(request.params.pool, projectsOf(request), request.params.type),
    ),
    bind(routes['storage-volumes.create'], (request) => create(volumes, request, request.body?.type ?? '')),
    bind(routes['storage-volumes.create-type'], (request) => create(volumes, request, request.params.type)),
    bind(routes['storage-volumes.get'], (request) => {
      const { volume, etag } = volumes.get(volumeAddress(request));
      return sync(volume, etag);
    }),
    bind(routes['storage-volumes.put'], async (request) => {
      checkShared(request);
      await volumes.put(volumeAddress(request), request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['storage-volumes.patch'], async (request) => {
      checkShared(request);
      await volumes.patch(volumeAddress(request), request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['storage-volumes.post'], async (request) => {
      checkOther(request.caller, request.body.project);
      const done = await volumes.post(volumeAddress(request), request.body, reachOptions(request));
      return typeof done === 'string' ? created(done) : operation(done);
    }),
    bind(routes['storage-volumes.delete'], async (request) => {
      checkShared(request);
      await volumes.delete(volumeAddress(request), changeOptions(request));
      return empty();
    }),
    bind(routes['storage-volumes.state'], async (request) => sync(await volumes.state(volumeAddress(request)))),
  ];
}

/** Of all projects a restricted caller sees its own. */
function projectsOf({ project, allProjects, caller }: RouteRequest): readonly string[] | undefined {
  if (!allProjects) return [project];
  return isAdmin(caller) ? undefined : caller.projects;
}

interface VolumeRequest {
  readonly project: string;
  readonly params: { readonly pool: string; readonly type: string; readonly volume: string };
}

/** The volume a request's URL names. */
export function volumeAddress({ project, params }: VolumeRequest): {
  pool: string;
  project: string;
  type: string;
  name: string;
} {
  return { pool: params.pool, project, type: params.type, name: params.volume };
}

function reachOptions(request: Pick<RouteRequest, 'caller' | 'ifMatch'>) {
  return { ...changeOptions(request), mayFetch: isAdmin(request.caller) };
}

/** A second project that a body names is one the caller may use, like that of the URL. @throws unauthorized */
function checkOther(caller: Caller, project: string | undefined): void {
  if (project === undefined || project === '' || mayUseProject(caller, project)) return;
  throw errors.unauthorized('not authorized');
}

/** Volumes of images serve every project. @throws unauthorized */
function checkShared({ caller, params }: Pick<RouteRequest, 'caller'> & Pick<VolumeRequest, 'params'>): void {
  if (params.type === 'image' && !isAdmin(caller)) throw errors.unauthorized('not authorized');
}

type CreateRequest = RouteRequest<(typeof routes)['storage-volumes.create']>;
type CreateTypedRequest = RouteRequest<(typeof routes)['storage-volumes.create-type']>;

async function create(
  volumes: StorageVolumes,
  request: CreateRequest | CreateTypedRequest,
  type: string,
): Promise<Reply> {
  const { project, params, body, raw } = request;
  const at = { pool: params.pool, project };
  const options = changeOptions(request);
  if (body !== undefined) {
    checkOther(request.caller, body.source?.project);
    const started = await volumes.create({ ...at, type }, body, reachOptions(request));
    return started === undefined ? empty() : operation(started);
  }
  if ('type' in params && params.type !== 'custom') {
    throw errors.badRequest(`Currently not allowed to create storage volumes of type "${params.type}"`);
  }
  const upload: VolumeUpload = {
    name: header(raw.headers['x-lxd-name']),
    kind: header(raw.headers['x-lxd-type']) === 'iso' ? 'iso' : 'backup',
    content: raw,
    signal: request.signal,
  };
  return operation(await volumes.upload(at, upload, options));
}

function header(value: string | string[] | undefined): string {
  return typeof value === 'string' ? value : '';
}
