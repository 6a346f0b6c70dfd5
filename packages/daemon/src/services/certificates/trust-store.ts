import type { Collection } from '../../state/collection.ts';
import type { CertificateRecord } from '../../state/records/certificate.ts';
import type { Caller } from './caller.ts';
import type { ParsedCertificate } from './x509.ts';

/** Says who a connection's client certificate stands for; asked for every request, so a removed certificate is out at once. */
export class TrustStore {
  readonly #certificates: Collection<CertificateRecord>;
  readonly #now: () => number;

  constructor(certificates: Collection<CertificateRecord>, now: () => number) {
    this.#certificates = certificates;
    this.#now = now;
  }

  /** `address`: `host:port` of the other end. */
  identify(certificate: ParsedCertificate | undefined, address: string): Caller {
    const fingerprint = certificate?.fingerprint ?? '';
    const shown = { certificate: certificate?.pem, fingerprint };
    const record = this.#valid(certificate) ? this.#certificates.get(fingerprint)?.value : undefined;
    if (record === undefined) {
      return { kind: 'untrusted', projects: [], requestor: { username: '', protocol: '', address }, ...shown };
    }
    const requestor = { username: fingerprint, protocol: 'tls', address } as const;
    if (record.type === 'metrics') return { kind: 'metrics', projects: [], requestor, ...shown };
    if (record.restricted) return { kind: 'restricted', projects: record.projects, requestor, ...shown };
    return { kind: 'trusted', projects: [], requestor, ...shown };
  }

  #valid(certificate: ParsedCertificate | undefined): boolean {
    if (certificate === undefined) return false;
    const now = this.#now();
    return certificate.notBefore <= now && now <= certificate.notAfter;
  }
}
