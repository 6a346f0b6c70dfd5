import { routes } from '@keelson/api';
import type { Certificates } from '../../services/certificates/contract.ts';
import { bindList } from '../list.ts';
import { created, empty, operation, sync } from '../reply.ts';
import { bind, type RouteBinding } from '../route.ts';

export function certificateRoutes(certificates: Certificates): RouteBinding[] {
  return [
    bindList(routes['certificates.list'], ({ caller }) => certificates.list(caller)),
    bind(routes['certificates.create'], async ({ caller, body }) => {
      const made = await certificates.create(caller, body);
      return typeof made === 'string' ? created(made) : operation(made);
    }),
    bind(routes['certificates.get'], ({ caller, params }) => {
      const { certificate, etag } = certificates.get(caller, params.fingerprint);
      return sync(certificate, etag);
    }),
    bind(routes['certificates.put'], async ({ caller, params, body, ifMatch }) => {
      await certificates.put(caller, params.fingerprint, body, ifMatch);
      return empty();
    }),
    bind(routes['certificates.patch'], async ({ caller, params, body, ifMatch }) => {
      await certificates.patch(caller, params.fingerprint, body, ifMatch);
      return empty();
    }),
    bind(routes['certificates.delete'], async ({ caller, params }) => {
      await certificates.delete(caller, params.fingerprint);
      return empty();
    }),
  ];
}
