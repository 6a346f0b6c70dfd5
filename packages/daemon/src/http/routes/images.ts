import { routes } from '@keelson/api';
import { randomBytes } from 'node:crypto';
import { errors } from '../../core/errors.ts';
import { type Caller, isAdmin, mayUseProject } from '../../services/certificates/caller.ts';
import type { Images, ImageViewer } from '../../services/images/contract.ts';
import { exportReply, uploadOptions, uploadParts } from '../image-upload.ts';
import { bindList } from '../list.ts';
import { empty, operation, raw, sync } from '../reply.ts';
import { changeOptions } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';

const BOUNDARY_BYTES = 30;

export function imageRoutes(images: Images): RouteBinding[] {
  return [
    bindList(routes['images.list'], (request) =>
      images.list(request.project, viewerOf(request), { allProjects: request.allProjects && isAdmin(request.caller) }),
    ),
    bind(routes['images.get'], (request) => {
      const { image, etag } = images.get(request.project, request.params.fingerprint, viewerOf(request));
      return sync(image, etag);
    }),
    bind(routes['images.create'], async (request) => {
      const { caller, project, body, raw: message, signal } = request;
      if (!mayUseProject(caller, project)) throw errors.unauthorized('not authorized');
      const { requestor } = caller;
      if (body !== undefined) {
        return operation(await images.create(project, body, { requestor, mayFetch: isAdmin(caller) }));
      }
      const options = { ...uploadOptions(message.headers), signal, requestor };
      return operation(await images.upload(project, uploadParts(message), options));
    }),
    bind(routes['images.put'], async (request) => {
      await images.put(request.project, request.params.fingerprint, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['images.patch'], async (request) => {
      await images.patch(request.project, request.params.fingerprint, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['images.delete'], (request) =>
      operation(images.delete(request.project, request.params.fingerprint, changeOptions(request))),
    ),
    bind(routes['images.export'], async (request) => {
      const image = await images.export(request.project, request.params.fingerprint, viewerOf(request));
      const { body, headers } = exportReply(image, randomBytes(BOUNDARY_BYTES).toString('hex'));
      return raw(body, headers);
    }),
    bind(routes['images.refresh'], (request) =>
      operation(images.refresh(request.project, request.params.fingerprint, changeOptions(request))),
    ),
    bind(routes['images.secret'], (request) =>
      operation(images.secret(request.project, request.params.fingerprint, changeOptions(request))),
    ),
  ];
}

interface Looking {
  readonly caller: Caller;
  readonly project: string;
  readonly query: Readonly<Record<string, string | undefined>>;
}

function viewerOf({ caller, project, query }: Looking): ImageViewer {
  const { secret } = query;
  return {
    trusted: mayUseProject(caller, project),
    requestor: caller.requestor,
    ...(secret === undefined || secret === '' ? {} : { secret }),
  };
}
