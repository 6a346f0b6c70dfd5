import 'reflect-metadata';
import * as x509 from '@peculiar/x509';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { webcrypto } from 'node:crypto';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-384', hash: 'SHA-384' } as const;
const YEARS = 10;
const YEAR_MS = 365.25 * 86_400_000;

/** PEM of the client certificate in the configuration folder; made once, with its key, when there is none. */
export async function ensureClientCertificate(folder: string): Promise<string> {
  const [certificate, key] = [join(folder, 'client.crt'), join(folder, 'client.key')];
  if (existsSync(certificate) && existsSync(key)) return readFileSync(certificate, 'utf8');
  const made = await selfSigned(`${userInfo().username}@${hostname()}`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeNew(key, made.key);
  writeNew(certificate, made.certificate);
  return made.certificate;
}

function writeNew(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

async function selfSigned(commonName: string): Promise<{ certificate: string; key: string }> {
  x509.cryptoProvider.set(webcrypto);
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const serial = Buffer.from(webcrypto.getRandomValues(new Uint8Array(16))).toString('hex');
  const now = Date.now();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    // The first digit keeps the number positive and without leading zeros.
    serialNumber: `4${serial.slice(1)}`,
    name: [{ O: ['Keelson'] }, { CN: [commonName] }],
    notBefore: new Date(now - 3_600_000),
    notAfter: new Date(now + YEARS * YEAR_MS),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyEncipherment, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]),
    ],
  });
  const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey);
  return {
    certificate: `${certificate.toString('pem')}\n`,
    key: `${x509.PemConverter.encode(pkcs8, 'PRIVATE KEY')}\n`,
  };
}
