import { expect, test } from 'vitest';
import { createLedger } from '../../state/ledger.ts';
import { MemoryStore } from '../../state/memory/memory-store.ts';
import type { CertificateRecord } from '../../state/records/certificate.ts';
import { TrustStore } from './trust-store.ts';
import type { ParsedCertificate } from './x509.ts';

const parsed: ParsedCertificate = { fingerprint: 'ab', pem: 'PEM', commonName: 'me', notBefore: 100, notAfter: 200 };
const record: CertificateRecord = {
  fingerprint: 'ab',
  name: 'me',
  type: 'client',
  restricted: false,
  projects: [],
  certificate: 'PEM',
};

async function kindOf(change: Partial<CertificateRecord>, now = 150): Promise<string> {
  await using store = new MemoryStore();
  await using ledger = await createLedger(store);
  const certificates = ledger.collection<CertificateRecord>('/certificates/');
  await certificates.create('ab', { ...record, ...change });
  return new TrustStore(certificates, () => now).identify(parsed, 'host:1').kind;
}

test.each([
  [{}, 150, 'trusted'],
  [{}, 99, 'untrusted'],
  [{}, 201, 'untrusted'],
  [{ restricted: true, projects: ['a'] }, 150, 'restricted'],
  [{ type: 'metrics' as const }, 150, 'metrics'],
  // Metrics only, even with every right noted.
  [{ type: 'metrics' as const, restricted: false }, 150, 'metrics'],
])('%j at %i is %s', async (change, now, kind) => {
  expect(await kindOf(change, now)).toBe(kind);
});

test('a restricted caller has the projects of its record', async () => {
  await using store = new MemoryStore();
  await using ledger = await createLedger(store);
  const certificates = ledger.collection<CertificateRecord>('/certificates/');
  await certificates.create('ab', { ...record, restricted: true, projects: ['a', 'b'] });
  const trust = new TrustStore(certificates, () => 150);
  expect(trust.identify(parsed, 'host:1')).toMatchObject({
    projects: ['a', 'b'],
    requestor: { username: 'ab', protocol: 'tls', address: 'host:1' },
  });
  expect(trust.identify(undefined, 'host:1').kind).toBe('untrusted');
});
