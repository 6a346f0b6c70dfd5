import { Type } from 'typebox';
import { Operation } from '../resources/operation.ts';
import { AllProjectsListQuery, defineRoute, ListOf, ProjectQuery, SecretQuery, WaitQuery } from './define.ts';

export const operationRoutes = {
  'operations.list': defineRoute({
    id: 'operations.list',
    method: 'GET',
    path: '/1.0/operations',
    kind: 'sync',
    access: 'user',
    query: AllProjectsListQuery,
    response: Type.Record(Type.String(), ListOf(Operation)),
  }),
  'operations.get': defineRoute({
    id: 'operations.get',
    method: 'GET',
    path: '/1.0/operations/:id',
    kind: 'sync',
    access: 'user',
    query: ProjectQuery,
    response: Operation,
  }),
  'operations.delete': defineRoute({
    id: 'operations.delete',
    method: 'DELETE',
    path: '/1.0/operations/:id',
    kind: 'sync',
    access: 'user',
    query: ProjectQuery,
  }),
  'operations.wait': defineRoute({
    id: 'operations.wait',
    method: 'GET',
    path: '/1.0/operations/:id/wait',
    kind: 'sync',
    access: 'untrusted',
    query: WaitQuery,
    response: Operation,
  }),
  'operations.websocket': defineRoute({
    id: 'operations.websocket',
    method: 'GET',
    path: '/1.0/operations/:id/websocket',
    kind: 'websocket',
    access: 'untrusted',
    query: SecretQuery,
  }),
} as const;
