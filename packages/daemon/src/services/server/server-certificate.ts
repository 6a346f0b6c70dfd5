import 'reflect-metadata';
import { webcrypto, X509Certificate } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import * as x509 from '@peculiar/x509';

export interface ServerCertificate {
  /** PEM. */
  readonly certificate: string;
  readonly key: string;
  /** SHA-256, lower-case hex. */
  readonly fingerprint: string;
}

const VALID_DAYS = 3650;
const DAY_MS = 86_400_000;
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-384', hash: 'SHA-384' } as const;

/** The certificate in the two files; made by the daemon itself when there is none yet. */
export async function loadServerCertificate(certPath: string, keyPath: string): Promise<ServerCertificate> {
  const [certificate, key] = await Promise.all([readIfThere(certPath), readIfThere(keyPath)]);
  if (certificate !== undefined && key !== undefined) return describe(certificate, key);
  const made = await selfSigned(hostname());
  // The key first: a certificate without key would be replaced, and clients would not know the server again.
  await writeWhole(keyPath, made.key, 0o600);
  await writeWhole(certPath, made.certificate, 0o644);
  return describe(made.certificate, made.key);
}

async function selfSigned(host: string): Promise<{ certificate: string; key: string }> {
  x509.cryptoProvider.set(webcrypto);
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const now = Date.now();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: Buffer.from(webcrypto.getRandomValues(new Uint8Array(16)))
      .toString('hex')
      .replace(/^./, '4'),
    name: [{ O: ['Keelson'] }, { CN: [`root@${host}`] }],
    notBefore: new Date(now - DAY_MS),
    notAfter: new Date(now + VALID_DAYS * DAY_MS),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyEncipherment, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension([
        { type: 'dns', value: host },
        { type: 'ip', value: '127.0.0.1' },
        { type: 'ip', value: '::1' },
      ]),
    ],
  });
  const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey);
  return {
    certificate: `${certificate.toString('pem')}\n`,
    key: `${x509.PemConverter.encode(pkcs8, 'PRIVATE KEY')}\n`,
  };
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
