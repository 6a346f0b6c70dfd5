import {
  clientCertificate,
  httpsCall,
  startInProcess,
  until,
  type ClientCertificate,
  type HttpsTarget,
  type TestApi,
} from '@keelson/testkit';
import { connect } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

interface Server {
  readonly auth: string;
  readonly config: Record<string, unknown>;
  readonly environment: { readonly addresses: string[]; readonly certificate_fingerprint: string };
}

let api: TestApi;
let address: string;
let client: ClientCertificate;
beforeAll(async () => {
  api = await startInProcess();
  client = await clientCertificate('laptop');
  address = await listenOn('127.0.0.1:0');
});
afterAll(() => api[Symbol.asyncDispose]());

async function listenOn(where: string): Promise<string> {
  const { status, body } = await api.request('PATCH', '/1.0', { config: { 'core.https_address': where } });
  expect([status, body.error]).toEqual([200, '']);
  const server = await api.request<Server>('GET', '/1.0');
  return server.body.metadata.environment.addresses[0] ?? '';
}
const target = (certificate?: ClientCertificate): HttpsTarget => ({ address, ...certificate });
const trust = (certificate: ClientCertificate, rest: object = {}) =>
  api.request('POST', '/1.0/certificates', { type: 'client', certificate: certificate.base64, ...rest });

describe('HTTPS', () => {
  test('an unknown client is untrusted, with and without certificate', async () => {
    for (const certificate of [undefined, client]) {
      const { body } = await httpsCall<Server>(target(certificate), 'GET', '/1.0');
      expect(body.metadata.auth).toBe('untrusted');
      expect((await httpsCall(target(certificate), 'GET', '/1.0/profiles')).status).toBe(403);
    }
  });

  test('a trusted client may, until its certificate is deleted', async () => {
    const friend = await clientCertificate('friend');
    expect((await trust(friend)).status).toBe(201);
    expect((await httpsCall<Server>(target(friend), 'GET', '/1.0')).body.metadata.auth).toBe('trusted');
    expect((await httpsCall(target(friend), 'GET', '/1.0/profiles')).status).toBe(200);
    await api.request('DELETE', `/1.0/certificates/${friend.fingerprint}`);
    expect((await httpsCall(target(friend), 'GET', '/1.0/profiles')).status).toBe(403);
  });

  test('an expired certificate is never trusted', async () => {
    const late = await clientCertificate('late', true);
    expect((await trust(late)).status).toBe(400);
    expect((await httpsCall<Server>(target(late), 'GET', '/1.0')).body.metadata.auth).toBe('untrusted');
  });

  test('TLS 1.2 is refused', async () => {
    const [host = '', port = ''] = address.split(':');
    const failure = await new Promise<Error>((resolve, reject) => {
      const socket = connect({ host, port: Number(port), maxVersion: 'TLSv1.2', rejectUnauthorized: false }, () =>
        reject(new Error('connected')),
      );
      socket.on('error', resolve);
    });
    expect(failure.message).toMatch(/alert|version/i);
  });

  test('the address moves while the daemon runs', async () => {
    const before = address;
    address = await listenOn('[::1]:0');
    expect(address).toMatch(/^\[::1\]:\d+$/);
    expect((await httpsCall(target(), 'GET', '/')).status).toBe(200);
    await until('the old address to close', async () => {
      const refused = await httpsCall({ address: before }, 'GET', '/').catch((error: unknown) => error);
      return refused instanceof Error;
    });
    // From one address to all of them, on the same port.
    const port = address.slice(address.lastIndexOf(':') + 1);
    await api.request('PATCH', '/1.0', { config: { 'core.https_address': `:${port}` } });
    address = `127.0.0.1:${port}`;
    expect((await httpsCall(target(), 'GET', '/')).status).toBe(200);
  });

  test('an address that cannot be had is refused and the old one stays', async () => {
    for (const bad of ['192.0.2.1:1', 'foo:bar:baz', ':99999']) {
      const { status } = await api.request('PATCH', '/1.0', { config: { 'core.https_address': bad } });
      expect(status).toBe(400);
    }
    expect((await httpsCall(target(), 'GET', '/')).status).toBe(200);
  });
});

describe('adding oneself', () => {
  const add = (certificate: ClientCertificate | undefined, body: object) =>
    httpsCall(target(certificate), 'POST', '/1.0/certificates', { type: 'client', ...body });

  test('needs the password', async () => {
    const me = await clientCertificate('me');
    expect((await add(me, {})).status).toBe(403);
    expect((await add(me, { password: 'guess' })).status).toBe(403);
    await api.request('PATCH', '/1.0', { config: { 'core.trust_password': 'right' } });
    expect((await api.request<Server>('GET', '/1.0')).body.metadata.config['core.trust_password']).toBe(true);
    expect((await add(me, { password: 'guess' })).status).toBe(403);
    expect((await add(undefined, { password: 'right' })).status).toBe(400);
    expect((await add(me, { password: 'right' })).status).toBe(201);
    expect((await httpsCall(target(me), 'GET', '/1.0/profiles')).status).toBe(200);
  });

  test('adds the certificate of the connection, whatever the body says', async () => {
    const me = await clientCertificate('self');
    const other = await clientCertificate('other');
    expect((await add(me, { password: 'right', certificate: other.base64 })).status).toBe(201);
    expect((await api.request('GET', `/1.0/certificates/${other.fingerprint}`)).status).toBe(404);
    expect((await api.request('GET', `/1.0/certificates/${me.fingerprint}`)).status).toBe(200);
  });

  test('a token works once, with the rights its issuer gave', async () => {
    const issued = await api.request<{ class: string; metadata: { secret: string; addresses: string[] } }>(
      'POST',
      '/1.0/certificates',
      { type: 'client', token: true, name: 'ci', restricted: true, projects: ['default'] },
    );
    expect([issued.status, issued.body.metadata.class]).toEqual([202, 'token']);
    expect(issued.body.metadata.metadata.addresses.length).toBeGreaterThan(0);
    const token = Buffer.from(JSON.stringify({ client_name: 'ci', ...issued.body.metadata.metadata })).toString(
      'base64',
    );
    const [first, second] = [await clientCertificate('ci'), await clientCertificate('ci2')];
    expect((await add(first, { password: token, restricted: false })).status).toBe(201);
    const { body } = await api.request('GET', `/1.0/certificates/${first.fingerprint}`);
    expect(body.metadata).toMatchObject({ name: 'ci', restricted: true, projects: ['default'] });
    expect((await add(second, { password: token })).status).toBe(403);
  });

  test('guessing is slowed down', async () => {
    const guesser = await clientCertificate('guesser');
    const statuses = await Promise.all(Array.from({ length: 14 }, () => add(guesser, { password: 'wrong' })));
    expect(statuses.filter(({ status }) => status === 503).length).toBeGreaterThan(0);
    expect((await add(guesser, { password: 'right' })).status).toBe(503);
  });
});

describe('a restricted client', () => {
  const call = (method: string, path: string, body?: unknown) => httpsCall(target(me), method, path, body);
  let me: ClientCertificate;
  let own: string;
  beforeAll(async () => {
    me = await clientCertificate('restricted');
    own = `/1.0/certificates/${me.fingerprint}`;
    await trust(me, { name: 'r', restricted: true, projects: ['default'] });
    await trust(client);
  });

  test.each([
    ['PUT', { name: 'r', type: 'client', restricted: false, projects: [] }],
    ['PUT', { name: 'r', type: 'client' }],
    ['PUT', { name: 'r', type: 'server', restricted: true, projects: ['default'] }],
    ['PATCH', { restricted: false }],
    ['PATCH', { projects: ['default', 'other'] }],
    ['PATCH', { projects: [] }],
  ])('cannot change its own rights: %s %j', async (method, body) => {
    expect((await call(method, own, body)).status).toBeGreaterThanOrEqual(400);
    const { body: after } = await api.request('GET', own);
    expect(after.metadata).toMatchObject({ type: 'client', restricted: true, projects: ['default'] });
  });

  test('sees and touches its own certificate only, in every recursion mode', async () => {
    expect((await call('GET', '/1.0/certificates')).body.metadata).toEqual([own]);
    expect((await call('GET', '/1.0/certificates?recursion=1')).body.metadata).toMatchObject([{ name: 'r' }]);
    const foreign = `/1.0/certificates/${client.fingerprint}`;
    for (const method of ['GET', 'DELETE']) expect((await call(method, foreign)).status).toBe(404);
    expect((await call('PATCH', foreign, { name: 'mine' })).status).toBe(404);
  });

  test('cannot add certificates', async () => {
    const friend = await clientCertificate('friend of r');
    const body = { type: 'client', certificate: friend.base64, password: 'right' };
    expect((await call('POST', '/1.0/certificates', body)).status).toBe(403);
    expect((await call('POST', '/1.0/certificates', { type: 'client', token: true })).status).toBe(403);
  });

  test('is kept to its projects', async () => {
    expect((await call('GET', '/1.0/profiles')).status).toBe(200);
    expect((await call('GET', '/1.0/profiles?project=other')).status).toBe(403);
    expect((await call('PUT', '/1.0', { config: {} })).status).toBe(403);
  });
});
