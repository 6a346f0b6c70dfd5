import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { Client, ClientConnectionFailed, type ClientOptions } from '@keelson/client';
import { clientCertificate, command, named, probePrograms } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const probe = probePrograms('openssl');

describe.skipIf(!probe.ok)(named('verify and cert', probe), () => {
  const folder = mkdtempSync(join(tmpdir(), 'keelson-tls-'));
  const file = (name: string): string => join(folder, name);
  const running: Server[] = [];
  /** Fingerprint of the certificate that the client showed last. */
  let shown: string | undefined;
  let right: string;
  let elsewhere: string;

  /** A key, and a certificate for `name` that the authority signed. */
  async function sign(name: string): Promise<{ key: string; cert: string }> {
    const [key, request, cert, extensions] = ['key', 'csr', 'crt', 'ext'].map((end) => file(`${name}.${end}`));
    if (key === undefined || request === undefined || cert === undefined || extensions === undefined) throw new Error();
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    await command('openssl', ['req', ...curve, '-keyout', key, '-out', request, '-subj', `/CN=${name}`]);
    writeFileSync(extensions, `subjectAltName=${name === 'right' ? 'IP:127.0.0.1' : 'DNS:elsewhere.example'}\n`);
    const authority = ['-CA', file('ca.crt'), '-CAkey', file('ca.key'), '-CAcreateserial', '-days', '2'];
    await command('openssl', ['x509', '-req', '-in', request, '-out', cert, '-extfile', extensions, ...authority]);
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
  }

  async function serve(name: string): Promise<string> {
    const options = { ...(await sign(name)), requestCert: true, rejectUnauthorized: false };
    const server = createServer(options, (request, response) => {
      shown = (request.socket as TLSSocket).getPeerX509Certificate()?.fingerprint256;
      response.setHeader('Content-Type', 'application/json');
      response.end(JSON.stringify({ type: 'sync', status_code: 200, metadata: { api_extensions: [] } }));
    }).listen(0, '127.0.0.1');
    running.push(server);
    await once(server, 'listening');
    return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  beforeAll(async () => {
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    const where = ['-keyout', file('ca.key'), '-out', file('ca.crt'), '-subj', '/CN=authority', '-days', '2'];
    await command('openssl', ['req', '-x509', ...curve, ...where]);
    [right, elsewhere] = [await serve('right'), await serve('elsewhere')];
  });
  afterAll(() => {
    for (const server of running) server.close().closeAllConnections();
    rmSync(folder, { recursive: true, force: true });
  });

  async function ask(endpoint: string, options: Omit<ClientOptions, 'endpoint'>): Promise<unknown> {
    shown = undefined;
    await using client = new Client({ endpoint, ...options });
    return await client.server.get();
  }

  const pem = (name: string): string => readFileSync(file(`${name}.crt`), 'utf8');

  it('an authority, as text or path, vouches for the names in the certificate only', async () => {
    expect(await ask(right, { verify: pem('ca') })).toEqual({ api_extensions: [] });
    expect(await ask(right, { verify: file('ca.crt') })).toEqual({ api_extensions: [] });
    const refused = ask(elsewhere, { verify: pem('ca') });
    await expect(refused).rejects.toMatchObject({ name: 'ClientConnectionFailed', endpoint: elsewhere });
  });

  it("the server's own certificate pins it, whatever names are in it", async () => {
    expect(await ask(elsewhere, { verify: pem('elsewhere') })).toEqual({ api_extensions: [] });
    await expect(ask(right, { verify: pem('elsewhere') })).rejects.toBeInstanceOf(ClientConnectionFailed);
  });

  it("true, and nothing, ask the system's authorities; false asks nobody", async () => {
    await expect(ask(right, { verify: true })).rejects.toMatchObject({ cause: expect.any(Error) });
    await expect(ask(right, {})).rejects.toBeInstanceOf(ClientConnectionFailed);
    expect(await ask(elsewhere, { verify: false })).toEqual({ api_extensions: [] });
  });

  it("shows the certificate given, else keelson's, else lxc's", async () => {
    const made = await Promise.all(['given', 'keelson', 'lxc'].map((name) => clientCertificate(name)));
    const [given, keelson, lxc] = made.map(({ certificate, key }) => ({ cert: certificate, key }));
    if (given === undefined || keelson === undefined || lxc === undefined) throw new Error('three certificates');
    for (const [name, pair] of Object.entries({ keelson, lxc })) {
      mkdirSync(file(name), { recursive: true });
      writeFileSync(join(file(name), 'client.crt'), pair.cert);
      writeFileSync(join(file(name), 'client.key'), pair.key);
    }
    const before = { ...process.env };
    const fingerprint = (cert: string): string => new X509Certificate(cert).fingerprint256;
    try {
      process.env['XDG_CONFIG_HOME'] = file('nothing');
      process.env['KEELSON_CONF'] = file('keelson');
      process.env['LXD_CONF'] = file('lxc');
      await ask(right, { verify: false, cert: given });
      expect(shown).toBe(fingerprint(given.cert));
      await ask(right, { verify: false, cert: [join(file('lxc'), 'client.crt'), join(file('lxc'), 'client.key')] });
      expect(shown).toBe(fingerprint(lxc.cert));
      await ask(right, { verify: false });
      expect(shown).toBe(fingerprint(keelson.cert));
      delete process.env['KEELSON_CONF'];
      await ask(right, { verify: false });
      expect(shown).toBe(fingerprint(lxc.cert));
      delete process.env['LXD_CONF'];
      await ask(right, { verify: false });
      expect(shown).toBeUndefined();
    } finally {
      process.env = before;
    }
  });
});
