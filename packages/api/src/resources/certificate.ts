import { Type, type Static } from 'typebox';
import { Nullable, Timestamp } from './common.ts';

/** Writable part of a certificate. `certificate` is PEM, or base64 DER without header lines. */
export const CertificatePut = Type.Object(
  {
    certificate: Type.Optional(Type.String()),
    name: Type.Optional(Type.String()),
    projects: Type.Optional(Type.Array(Type.String())),
    restricted: Type.Optional(Type.Boolean()),
    type: Type.Optional(Type.String()),
  },
  { $id: 'CertificatePut' },
);
export type CertificatePut = Static<typeof CertificatePut>;

/** Adds a certificate to the trust store; without `certificate` the caller's own TLS certificate is meant. `POST /1.0/certificates`. */
export const CertificatesPost = Type.Object(
  {
    ...CertificatePut.properties,
    password: Type.Optional(Type.String()),
    token: Type.Optional(Type.Boolean()),
  },
  { $id: 'CertificatesPost' },
);
export type CertificatesPost = Static<typeof CertificatesPost>;

/** A trusted certificate; `fingerprint` is SHA-256 over the DER form, lower-case hex. `GET /1.0/certificates/:fingerprint`. */
export const Certificate = Type.Object(
  {
    certificate: Type.String(),
    fingerprint: Type.String(),
    name: Type.String(),
    projects: Nullable(Type.Array(Type.String())),
    restricted: Type.Boolean(),
    type: Type.String(),
  },
  { $id: 'Certificate' },
);
export type Certificate = Static<typeof Certificate>;

/** Content of the base64 token that lets a new client add itself. */
export const CertificateAddToken = Type.Object(
  {
    addresses: Type.Array(Type.String()),
    client_name: Type.String(),
    expires_at: Timestamp,
    fingerprint: Type.String(),
    secret: Type.String(),
  },
  { $id: 'CertificateAddToken' },
);
export type CertificateAddToken = Static<typeof CertificateAddToken>;
