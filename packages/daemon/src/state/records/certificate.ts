/** Stored under `/certificates/<fingerprint>`. */
export interface CertificateRecord {
  readonly fingerprint: string;
  readonly name: string;
  readonly type: 'client' | 'metrics';
  readonly restricted: boolean;
  readonly projects: readonly string[];
  /** PEM. */
  readonly certificate: string;
}
