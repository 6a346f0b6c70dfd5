import { selfSigned } from '@keelson/daemon';
import { X509Certificate } from 'node:crypto';

export interface ClientCertificate {
  /** PEM. */
  readonly certificate: string;
  readonly key: string;
  /** SHA-256 over the DER form, lower-case hex. */
  readonly fingerprint: string;
  /** DER in base64, as LXD's clients send it. */
  readonly base64: string;
}

const DAY_MS = 86_400_000;

/** A self-signed client certificate; one that ran out yesterday when `expired`. */
export async function clientCertificate(name = 'test', expired = false): Promise<ClientCertificate> {
  const now = Date.now();
  const { certificate, key } = await selfSigned({
    commonName: name,
    usage: 'client',
    notBefore: now - 10 * DAY_MS,
    notAfter: now + (expired ? -1 : 30) * DAY_MS,
  });
  const parsed = new X509Certificate(certificate);
  const fingerprint = parsed.fingerprint256.replaceAll(':', '').toLowerCase();
  return { certificate, key, fingerprint, base64: parsed.raw.toString('base64') };
}
