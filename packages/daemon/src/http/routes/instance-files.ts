import { routes } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { InstanceService } from '../../services/instances/instance-service.ts';
import { empty, raw, type Reply, sync } from '../reply.ts';
import { bind, type RouteBinding } from '../route.ts';
import { instanceOptions } from './instances.ts';

/** Bytes a template may have. */
const TEMPLATE_LIMIT = 256 * 1024;

type Parts = Pick<InstanceService, 'files' | 'logs' | 'metadata'>;

/** Files, logs, metadata and templates of instances. */
export function instanceFileRoutes(parts: Parts): RouteBinding[] {
  return [...fileRoutes(parts), ...logRoutes(parts), ...metadataRoutes(parts), ...templateRoutes(parts)];
}

function fileRoutes({ files }: Parts): RouteBinding[] {
  return [
    bind(routes['instance-files.get'], async (request): Promise<Reply> => {
      const { project, params, query } = request;
      const found = await files.get(project, params.name, query['path'] ?? '', instanceOptions(request));
      if (found.kind === 'file')
        return raw(found.body, { 'Content-Type': 'application/octet-stream', ...found.headers });
      return { kind: 'value', value: found.names, status: 200, headers: found.headers };
    }),
    bind(routes['instance-files.head'], async ({ project, params, query, instanceType }) => {
      const headers = await files.head(project, params.name, query['path'] ?? '', instanceType);
      return raw('', { 'Content-Type': 'application/json', ...headers });
    }),
    bind(routes['instance-files.post'], async (request) => {
      const upload = { path: request.query['path'] ?? '', headers: request.raw.headers, body: request.raw };
      await files.post(request.project, request.params.name, upload, instanceOptions(request));
      return empty();
    }),
    bind(routes['instance-files.delete'], async (request) => {
      const { project, params, query } = request;
      await files.delete(project, params.name, query['path'] ?? '', instanceOptions(request));
      return empty();
    }),
  ];
}

function logRoutes({ logs }: Parts): RouteBinding[] {
  return [
    bind(routes['instance-logs.list'], async ({ project, params, instanceType }) =>
      sync(await logs.list(project, params.name, instanceType)),
    ),
    bind(routes['instance-logs.get'], async (request) => {
      const { name, filename } = request.params;
      const handle = await logs.open(request.project, name, filename, instanceOptions(request));
      return raw(handle.createReadStream(), {
        'Content-Type': 'application/octet-stream',
        'Content-Disposition': `inline;filename=${encodeURIComponent(filename)}`,
      });
    }),
    bind(routes['instance-logs.delete'], async (request) => {
      const { name, filename } = request.params;
      await logs.delete(request.project, name, filename, instanceOptions(request));
      return empty();
    }),
  ];
}

function metadataRoutes({ metadata }: Parts): RouteBinding[] {
  return [
    bind(routes['instance-metadata.get'], ({ project, params, instanceType }) => {
      const found = metadata.get(project, params.name, instanceType);
      return sync(found, [found]);
    }),
    bind(routes['instance-metadata.put'], async (request) => {
      await metadata.put(request.project, request.params.name, request.body, instanceOptions(request));
      return empty();
    }),
    bind(routes['instance-metadata.patch'], async (request) => {
      await metadata.patch(request.project, request.params.name, request.body, instanceOptions(request));
      return empty();
    }),
  ];
}

function templateRoutes({ metadata }: Parts): RouteBinding[] {
  return [
    bind(routes['instance-templates.get'], ({ project, params, query, instanceType }) => {
      const path = query['path'] ?? '';
      if (path === '') return sync(metadata.templates(project, params.name, instanceType));
      return raw(metadata.template(project, params.name, path, instanceType), {
        'Content-Type': 'application/octet-stream',
        'Content-Disposition': `inline;filename=${encodeURIComponent(path)}`,
      });
    }),
    bind(routes['instance-templates.post'], async (request) => {
      const path = request.query['path'] ?? '';
      if (path === '') throw errors.badRequest('missing path argument');
      const content = await textBody(request.raw);
      await metadata.putTemplate(
        request.project,
        request.params.name,
        { file: path, content },
        instanceOptions(request),
      );
      return empty();
    }),
    bind(routes['instance-templates.delete'], async (request) => {
      await metadata.deleteTemplate(
        request.project,
        request.params.name,
        request.query['path'] ?? '',
        instanceOptions(request),
      );
      return empty();
    }),
  ];
}

async function textBody(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > TEMPLATE_LIMIT) throw errors.tooLarge('A template may have at most 256 KiB');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
