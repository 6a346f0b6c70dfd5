import type { Certificate, CertificatePut, CertificatesPost } from '@keelson/api';
import type { Precondition } from '../../core/precondition.ts';
import type { RecordList } from '../../core/record-list.ts';
import type { StartedOperation } from '../operations/contract.ts';
import type { Caller } from './caller.ts';

/** The trust store as the API needs it. A restricted caller sees and touches its own certificate only. */
export interface Certificates {
  list(caller: Caller): RecordList;
  /** By fingerprint or unambiguous beginning of it. @throws not-found. */
  get(caller: Caller, fingerprint: string): { readonly certificate: Certificate; readonly etag: readonly unknown[] };
  /**
   * Adds a certificate: an administrator any, an untrusted caller its own with the trust password or a token.
   * Returns its URL; or, for `token: true`, the operation that holds the token.
   * @throws unauthorized, conflict when it is trusted already.
   */
  create(caller: Caller, body: CertificatesPost): Promise<string | StartedOperation>;
  put(caller: Caller, fingerprint: string, body: CertificatePut, precondition: Precondition): Promise<void>;
  patch(caller: Caller, fingerprint: string, body: CertificatePut, precondition: Precondition): Promise<void>;
  delete(caller: Caller, fingerprint: string): Promise<void>;
}

/** What the trust store asks the server's configuration. */
export interface TrustSettings {
  /** Whether this is the trust password; false when none is set. */
  passwordMatches(password: string): Promise<boolean>;
  /** Addresses clients can reach the server at, `host:port`; empty when it does not listen. */
  addresses(): readonly string[];
  /** SHA-256 of the server's own certificate. */
  readonly fingerprint: string;
}
