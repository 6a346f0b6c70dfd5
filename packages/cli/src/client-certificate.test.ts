import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ensureClientCertificate } from './client-certificate.ts';

test('a client certificate is made once, with its key, for this user only', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'keelson-cert-'));
  try {
    const pem = await ensureClientCertificate(folder);
    const certificate = new X509Certificate(pem);
    expect(certificate.checkPrivateKey(createPrivateKey(readFileSync(join(folder, 'client.key'))))).toBe(true);
    expect(certificate.keyUsage).toEqual(['1.3.6.1.5.5.7.3.2']);
    expect(Date.parse(certificate.validTo) - Date.now()).toBeGreaterThan(9 * 365 * 86_400_000);
    expect(statSync(join(folder, 'client.key')).mode & 0o077).toBe(0);
    expect(await ensureClientCertificate(folder)).toBe(pem);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
