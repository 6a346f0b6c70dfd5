import { X509Certificate } from 'node:crypto';
import { errors } from '../../core/errors.ts';

/** A certificate as the trust store needs it. */
export interface ParsedCertificate {
  /** SHA-256 over the DER form, lower-case hex. */
  readonly fingerprint: string;
  readonly pem: string;
  readonly commonName: string;
  readonly notBefore: number;
  readonly notAfter: number;
}

/** PEM, or base64 DER without header lines. @throws bad-request when it is neither or not a certificate. */
export function parseCertificate(text: string): ParsedCertificate {
  const isPem = text.includes('-----BEGIN');
  if (!isPem && !/^[A-Za-z0-9+/=\s]+$/.test(text)) throw errors.badRequest('Certificate is neither PEM nor base64');
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(isPem ? text : Buffer.from(text, 'base64'));
  } catch (error) {
    throw errors.badRequest('Certificate cannot be parsed', error);
  }
  return describe(certificate);
}

export function describe(certificate: X509Certificate): ParsedCertificate {
  return {
    fingerprint: certificate.fingerprint256.replaceAll(':', '').toLowerCase(),
    pem: certificate.toString(),
    commonName: /^CN=(.*)$/m.exec(certificate.subject)?.[1] ?? '',
    notBefore: Date.parse(certificate.validFrom),
    notAfter: Date.parse(certificate.validTo),
  };
}
