import { routes } from '@keelson/api';
import type { ServerApi } from '../../services/server/contract.ts';
import { empty, prepared, raw, sync, type Reply } from '../reply.ts';
import { bind, type RouteBinding } from '../route.ts';

/** Documents about the API itself; made once, when first asked for. */
export interface ApiDocuments {
  /** OpenAPI 3.1, JSON text. */
  openApi(): string;
  /** Config keys per noun, as `/1.0/metadata/configuration` shows them. */
  configuration(): object;
}

export function serverRoutes(server: ServerApi, documents: ApiDocuments): RouteBinding[] {
  const replies = new WeakMap<object, Reply>();
  return [
    bind(routes['api.root'], () => sync(['/1.0'])),
    bind(routes['server.get'], ({ caller, project }) => {
      const description = server.describe(caller, project);
      const reply = replies.get(description) ?? prepared(description.json, description.etag);
      replies.set(description, reply);
      return reply;
    }),
    bind(routes['server.put'], async ({ caller, body, ifMatch }) => {
      await server.put(caller, body, ifMatch);
      return empty();
    }),
    bind(routes['server.patch'], async ({ caller, body, ifMatch }) => {
      await server.patch(caller, body, ifMatch);
      return empty();
    }),
    bind(routes['server.resources'], async () => sync(await server.resources())),
    bind(routes['server.configuration'], () => sync(documents.configuration())),
    bind(routes['api.openapi'], () => raw(documents.openApi(), { 'Content-Type': 'application/json' })),
  ];
}
