import { Certificate, CertificatePut, CertificatesPost } from '../resources/certificate.ts';
import { defineRoute, ListOf, ListQuery } from './define.ts';

export const certificateRoutes = {
  'certificates.list': defineRoute({
    id: 'certificates.list',
    method: 'GET',
    path: '/1.0/certificates',
    kind: 'sync',
    access: 'user',
    query: ListQuery,
    response: ListOf(Certificate),
  }),
  'certificates.create': defineRoute({
    id: 'certificates.create',
    method: 'POST',
    path: '/1.0/certificates',
    kind: 'sync',
    also: 'operation',
    access: 'untrusted',
    creates: true,
    body: CertificatesPost,
  }),
  'certificates.get': defineRoute({
    id: 'certificates.get',
    method: 'GET',
    path: '/1.0/certificates/:fingerprint',
    kind: 'sync',
    access: 'user',
    etag: true,
    response: Certificate,
  }),
  'certificates.put': defineRoute({
    id: 'certificates.put',
    method: 'PUT',
    path: '/1.0/certificates/:fingerprint',
    kind: 'sync',
    access: 'user',
    etag: true,
    body: CertificatePut,
  }),
  'certificates.patch': defineRoute({
    id: 'certificates.patch',
    method: 'PATCH',
    path: '/1.0/certificates/:fingerprint',
    kind: 'sync',
    access: 'user',
    etag: true,
    body: CertificatePut,
  }),
  'certificates.delete': defineRoute({
    id: 'certificates.delete',
    method: 'DELETE',
    path: '/1.0/certificates/:fingerprint',
    kind: 'sync',
    access: 'user',
  }),
} as const;
