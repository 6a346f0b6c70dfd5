import { createServer } from 'node:http';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { stateFolder } from './daemon-process.mjs';
import { imageMetadata, mirrorOf } from './debian-image.mjs';
import { addressOf, missingDevices } from './first-container.mjs';
import { Api } from './unix-http.mjs';

test('stateFolder is $KEELSON_DIR or the system folder', () => {
  expect(stateFolder({})).toBe('/var/lib/keelson');
  expect(stateFolder({ KEELSON_DIR: '/srv/k' })).toBe('/srv/k');
});

describe('missingDevices', () => {
  test('wants a root disk and a network card', () => {
    expect(missingDevices({})).toEqual({
      root: { type: 'disk', path: '/', pool: 'default' },
      eth0: { type: 'nic', name: 'eth0', network: 'keelbr0' },
    });
  });

  test('leaves chosen devices alone, whatever their names', () => {
    expect(missingDevices({ system: { type: 'disk', path: '/' }, lan: { type: 'nic' } })).toEqual({});
    expect(Object.keys(missingDevices({ data: { type: 'disk', path: '/data' }, lan: { type: 'nic' } }))).toEqual([
      'root',
    ]);
  });
});

test('addressOf takes the global IPv4 address and no other', () => {
  const local = { family: 'inet', scope: 'local', address: '127.0.0.1' };
  const v6 = { family: 'inet6', scope: 'global', address: 'fd42::2' };
  const v4 = { family: 'inet', scope: 'global', address: '10.1.2.3' };
  expect(addressOf({ network: { lo: { addresses: [local] }, eth0: { addresses: [v6, v4] } } })).toBe('10.1.2.3');
  expect(addressOf({ network: { lo: { addresses: [local] } } })).toBeUndefined();
  expect(addressOf({ network: null })).toBeUndefined();
});

test.each([
  ['Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\n', 'http://mirror.example/debian'],
  ['# none\ndeb [arch=amd64] http://mirror.example/d bookworm main\n', 'http://mirror.example/d'],
  ['', undefined],
])('mirrorOf reads both formats of apt sources (%#)', (text, mirror) => expect(mirrorOf([text])).toBe(mirror));

test('imageMetadata names architecture and release as images do', () => {
  const text = imageMetadata({ suite: 'bookworm', arch: 'arm64', created: 7 });
  expect(text).toContain('architecture: aarch64\ncreation_date: 7\n');
  expect(text).toContain('  release: bookworm\n  architecture: arm64\n');
});

describe('Api', () => {
  let folder;
  let server;
  let seen;
  const answers = {
    'GET /1.0/thing': [200, { type: 'sync', metadata: { name: 'thing' } }],
    'GET /1.0/none': [404, { type: 'error', error_code: 404, error: 'not found' }],
    'POST /1.0/images': [202, { type: 'async', operation: '/1.0/operations/a' }],
    'GET /1.0/operations/a/wait': [
      200,
      { type: 'sync', metadata: { status_code: 200, metadata: { fingerprint: 'f' } } },
    ],
    'POST /1.0/bad': [202, { type: 'async', operation: '/1.0/operations/b' }],
    'GET /1.0/operations/b/wait': [200, { type: 'sync', metadata: { status_code: 400, err: 'it broke' } }],
  };

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-api-'));
    seen = [];
    server = createServer(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      seen.push({ headers: request.headers, body });
      const [status, answer] = answers[`${request.method} ${request.url}`];
      response.writeHead(status).end(JSON.stringify(answer));
    });
    await new Promise((resolve) => server.listen(join(folder, 's'), resolve));
  });

  afterEach(async () => {
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true });
  });

  test('returns metadata, undefined for what is not there, and throws what went wrong', async () => {
    const api = new Api(join(folder, 's'));
    expect(await api.call('GET', '/1.0/thing')).toEqual({ name: 'thing' });
    expect(await api.find('/1.0/none')).toBeUndefined();
    await expect(api.call('POST', '/1.0/bad', { a: 1 })).rejects.toThrow('it broke');
  });

  test('uploads files as one multipart body of the announced length and waits for the operation', async () => {
    const file = join(folder, 'rootfs.squashfs');
    writeFileSync(file, 'hsqs');
    const operation = await new Api(join(folder, 's')).upload('/1.0/images', { rootfs: file });
    expect(operation.metadata.fingerprint).toBe('f');
    const [{ headers, body }] = seen;
    expect(Number(headers['content-length'])).toBe(body.length);
    expect(body).toMatch(/name="rootfs"; filename="rootfs\.squashfs"\r\n.*\r\n\r\nhsqs\r\n--.*--\r\n$/u);
  });
});
