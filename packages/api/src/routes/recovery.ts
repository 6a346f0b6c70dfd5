import { RecoverPost, RecoverResult } from '../resources/recovery.ts';
import { defineRoute } from './define.ts';

/** What `lxd recover` calls; its paths have no version, which means the current one. */
export const recoveryRoutes = {
  'recovery.validate': defineRoute({
    id: 'recovery.validate',
    method: 'POST',
    path: '/1.0/internal/recover/validate',
    kind: 'sync',
    access: 'admin',
    body: RecoverPost,
    response: RecoverResult,
  }),
  'recovery.import': defineRoute({
    id: 'recovery.import',
    method: 'POST',
    path: '/1.0/internal/recover/import',
    kind: 'sync',
    access: 'admin',
    body: RecoverPost,
    response: RecoverResult,
  }),
} as const;
