import { X509Certificate } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { selfSigned } from '../certificates/self-signed.ts';

export interface ServerCertificate {
  /** PEM. */
  readonly certificate: string;
  readonly key: string;
  /** SHA-256, lower-case hex. */
  readonly fingerprint: string;
}

const VALID_DAYS = 3650;
const DAY_MS = 86_400_000;

/** The certificate in the two files; made by the daemon itself when there is none yet. */
export async function loadServerCertificate(certPath: string, keyPath: string): Promise<ServerCertificate> {
  const [certificate, key] = await Promise.all([readIfThere(certPath), readIfThere(keyPath)]);
  if (certificate !== undefined && key !== undefined) return describe(certificate, key);
  const now = Date.now();
  const made = await selfSigned({
    commonName: `root@${hostname()}`,
    usage: 'server',
    notBefore: now - DAY_MS,
    notAfter: now + VALID_DAYS * DAY_MS,
    dnsNames: [hostname()],
    addresses: ['127.0.0.1', '::1'],
  });
  // The key first: a certificate without key would be replaced, and clients would not know the server again.
  await writeWhole(keyPath, made.key, 0o600);
  await writeWhole(certPath, made.certificate, 0o644);
  return describe(made.certificate, made.key);
}

function describe(certificate: string, key: string): ServerCertificate {
  const { fingerprint256 } = new X509Certificate(certificate);
  return { certificate, key, fingerprint: fingerprint256.replaceAll(':', '').toLowerCase() };
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

async function writeWhole(path: string, content: string, mode: number): Promise<void> {
  await writeFile(`${path}.new`, content, { mode, flush: true });
  await rename(`${path}.new`, path);
}
