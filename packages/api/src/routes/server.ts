import { Type } from 'typebox';
import { AnyMap } from '../resources/common.ts';
import { Resources } from '../resources/resources-system.ts';
import { Server, ServerPut, ServerUntrusted } from '../resources/server.ts';
import { defineRoute, EventsQuery, ScopeQuery, TargetQuery, UrlList } from './define.ts';

export const serverRoutes = {
  'api.root': defineRoute({
    id: 'api.root',
    method: 'GET',
    path: '/',
    kind: 'sync',
    access: 'untrusted',
    response: UrlList,
  }),
  'server.get': defineRoute({
    id: 'server.get',
    method: 'GET',
    path: '/1.0',
    kind: 'sync',
    access: 'untrusted',
    etag: true,
    query: ScopeQuery,
    response: Type.Union([Server, ServerUntrusted]),
  }),
  'server.put': defineRoute({
    id: 'server.put',
    method: 'PUT',
    path: '/1.0',
    kind: 'sync',
    access: 'admin',
    etag: true,
    query: TargetQuery,
    body: ServerPut,
  }),
  'server.patch': defineRoute({
    id: 'server.patch',
    method: 'PATCH',
    path: '/1.0',
    kind: 'sync',
    access: 'admin',
    etag: true,
    query: TargetQuery,
    body: ServerPut,
  }),
  'api.openapi': defineRoute({
    id: 'api.openapi',
    method: 'GET',
    path: '/1.0/openapi.json',
    kind: 'raw',
    access: 'untrusted',
  }),
  'server.configuration': defineRoute({
    id: 'server.configuration',
    method: 'GET',
    path: '/1.0/metadata/configuration',
    kind: 'sync',
    access: 'user',
    response: AnyMap,
  }),
  'server.resources': defineRoute({
    id: 'server.resources',
    method: 'GET',
    path: '/1.0/resources',
    kind: 'sync',
    access: 'user',
    extension: 'resources',
    query: TargetQuery,
    response: Resources,
  }),
  'events.stream': defineRoute({
    id: 'events.stream',
    method: 'GET',
    path: '/1.0/events',
    kind: 'websocket',
    access: 'user',
    query: EventsQuery,
  }),
} as const;
