import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import * as x509 from '@peculiar/x509';

export interface SelfSignedOptions {
  readonly commonName: string;
  readonly usage: 'server' | 'client';
  /** Milliseconds since 1970. */
  readonly notBefore: number;
  readonly notAfter: number;
  readonly dnsNames?: readonly string[];
  readonly addresses?: readonly string[];
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-384', hash: 'SHA-384' } as const;

/** A new P-384 key and its certificate, PEM. */
export async function selfSigned(options: SelfSignedOptions): Promise<{ certificate: string; key: string }> {
  x509.cryptoProvider.set(webcrypto);
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const names = [
    ...(options.dnsNames ?? []).map((value) => ({ type: 'dns' as const, value })),
    ...(options.addresses ?? []).map((value) => ({ type: 'ip' as const, value })),
  ];
  const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    // The first digit keeps the number positive and without leading zeros.
    serialNumber: `4${Buffer.from(webcrypto.getRandomValues(new Uint8Array(16)))
      .toString('hex')
      .slice(1)}`,
    name: [{ O: ['Keelson'] }, { CN: [options.commonName] }],
    notBefore: new Date(options.notBefore),
    notAfter: new Date(options.notAfter),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyEncipherment, true),
      new x509.ExtendedKeyUsageExtension([options.usage === 'server' ? serverAuth : clientAuth]),
      ...(names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension(names)]),
    ],
  });
  const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey);
  return {
    certificate: `${certificate.toString('pem')}\n`,
    key: `${x509.PemConverter.encode(pkcs8, 'PRIVATE KEY')}\n`,
  };
}
