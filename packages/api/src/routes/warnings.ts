import { Warning, WarningPut } from '../resources/warning.ts';
import { defineRoute, ListOf, ProjectListQuery } from './define.ts';

export const warningRoutes = {
  'warnings.list': defineRoute({
    id: 'warnings.list',
    method: 'GET',
    path: '/1.0/warnings',
    kind: 'sync',
    access: 'admin',
    extension: 'warnings',
    query: ProjectListQuery,
    response: ListOf(Warning),
  }),
  'warnings.get': defineRoute({
    id: 'warnings.get',
    method: 'GET',
    path: '/1.0/warnings/:uuid',
    kind: 'sync',
    access: 'admin',
    extension: 'warnings',
    response: Warning,
  }),
  'warnings.put': defineRoute({
    id: 'warnings.put',
    method: 'PUT',
    path: '/1.0/warnings/:uuid',
    kind: 'sync',
    access: 'admin',
    extension: 'warnings',
    etag: true,
    body: WarningPut,
  }),
  'warnings.patch': defineRoute({
    id: 'warnings.patch',
    method: 'PATCH',
    path: '/1.0/warnings/:uuid',
    kind: 'sync',
    access: 'admin',
    extension: 'warnings',
    etag: true,
    body: WarningPut,
  }),
  'warnings.delete': defineRoute({
    id: 'warnings.delete',
    method: 'DELETE',
    path: '/1.0/warnings/:uuid',
    kind: 'sync',
    access: 'admin',
    extension: 'warnings',
  }),
} as const;
