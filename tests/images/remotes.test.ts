import type { Image, Operation } from '@keelson/api';
import {
  type ImageFiles,
  startDaemon,
  startInProcess,
  startLxd,
  type TestApi,
  type TestDaemon,
  tinyImage,
} from '@keelson/testkit';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadServerCertificate } from '../../packages/daemon/src/services/server/server-certificate.ts';
import { form, type Target, upload } from './upload.ts';

const sha = (...parts: readonly Uint8Array[]): string => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
};

/** Starts a creation and waits for its end. */
async function create(target: Target, source: object, rest: object = {}): Promise<Operation> {
  const started = await target.request<Operation>('POST', '/1.0/images', { source, ...rest });
  if (started.status !== 202) throw new Error(`${started.status}: ${started.text}`);
  return (await target.request<Operation>('GET', `${started.body.operation}/wait`)).body.metadata;
}

async function freePort(): Promise<number> {
  const server = createTcpServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe('images from an image server', () => {
  let api: TestApi;
  let folder: string;
  let server: Server;
  let base: string;
  let certificate: string;
  let files: Record<string, Uint8Array>;
  let fingerprint: string;
  let unified: Uint8Array;
  const seen: string[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-remotes-'));
    const tiny = await tinyImage();
    const [head, root] = [readFileSync(tiny.metadata), readFileSync(tiny.rootfs)];
    unified = readFileSync(tiny.unified);
    fingerprint = sha(head, root);
    files = documents(head, root, fingerprint);
    const made = await loadServerCertificate(join(folder, 'crt'), join(folder, 'key'));
    certificate = made.certificate;
    server = createServer({ cert: made.certificate, key: made.key }, answer);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    base = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    api = await startInProcess();
  });
  afterAll(async () => {
    await api?.[Symbol.asyncDispose]();
    server?.closeAllConnections();
    await new Promise((resolve) => server?.close(resolve));
    rmSync(folder, { recursive: true, force: true });
  });

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? '/';
    seen.push(`${request.method} ${path}`);
    if (path === '/direct') {
      response.writeHead(200, { 'LXD-Image-Hash': sha(unified), 'LXD-Image-URL': `${base}/unified` });
      response.end();
    } else if (path === '/lying') {
      response.writeHead(200, { 'LXD-Image-Hash': sha(Buffer.from('other')), 'LXD-Image-URL': `${base}/unified` });
      response.end();
    } else if (path === '/metadata-service') {
      response.writeHead(302, { Location: 'http://169.254.169.254/latest/' }).end();
    } else if (path === '/unified') response.end(unified);
    else if (files[path] !== undefined) response.end(files[path]);
    else response.writeHead(404).end();
  }

  const simplestreams = (alias: string) => ({
    type: 'image',
    mode: 'pull',
    protocol: 'simplestreams',
    server: base,
    certificate,
    alias,
  });
  const read = async (name: string): Promise<Image> =>
    (await api.request<Image>('GET', `/1.0/images/${name}`)).body.metadata;

  it('simplestreams: by alias, with the combined fingerprint checked', async () => {
    const done = await create(api, simplestreams('tiny/1'), { aliases: [{ name: 'mine', description: 'd' }] });
    expect(done.err).toBe('');
    expect(await read(fingerprint)).toMatchObject({
      fingerprint,
      aliases: [{ name: 'mine', description: 'd' }],
      properties: { os: 'Tiny', release: '1', serial: '20260102', type: 'squashfs' },
      update_source: { server: base, protocol: 'simplestreams', alias: 'tiny/1', image_type: 'container' },
    });
    const again = await create(api, simplestreams('tiny/1'));
    expect([again.err, again.metadata?.['fingerprint']]).toEqual(['', fingerprint]);
    expect(seen.filter((line) => line.endsWith('/index.json'))).toHaveLength(1);
    const refreshed = await api.request<Operation>('POST', `/1.0/images/${fingerprint}/refresh`);
    const { body } = await api.request<Operation>('GET', `${refreshed.body.operation}/wait`);
    expect(body.metadata).toMatchObject({ status_code: 200, metadata: { refreshed: false } });
  });

  it.each([
    ['an alias the server has not', { alias: 'nope' }, /has no image "nope"/],
    ['a fingerprint that is not over both files', { alias: 'lying' }, /^fingerprints don't match/],
    ['a path that leaves the server', { alias: 'escaping' }, /has no image "escaping"/],
    ['a server without TLS', { server: 'http://127.0.0.1:1' }, /unsupported protocol scheme "http"/],
    ['a server with another certificate', { certificate: '' }, /Cannot reach/],
  ])('simplestreams: %s is refused', async (_, change, message) => {
    const done = await create(api, { ...simplestreams('tiny/1'), ...change });
    expect(done.status_code).toBe(400);
    expect(done.err).toMatch(message);
    expect((await api.request<string[]>('GET', '/1.0/images')).body.metadata).toHaveLength(1);
  });

  it.each([
    ['file:///etc/passwd', /unsupported protocol scheme "file"/],
    ['http://169.254.169.254/latest/', /link-local addresses are refused/],
    ['https://[fe80::1]/x', /link-local addresses are refused/],
    ['not a url', /Invalid URL/],
  ])('URL %s is refused', async (url, message) => {
    const done = await create(api, { type: 'url', url });
    expect(done.status_code).toBe(400);
    expect(done.err).toMatch(message);
  });

  it('a direct URL, its hash checked; a redirect to a link-local address is refused', async () => {
    const source = (path: string) => ({ type: 'url', url: `${base}${path}`, certificate });
    expect(await create(api, source('/direct'))).toMatchObject({ err: '', metadata: { fingerprint: sha(unified) } });
    expect((await create(api, source('/lying'))).err).toMatch(/^fingerprints don't match/);
    expect((await create(api, source('/metadata-service'))).err).toMatch(/link-local addresses are refused/);
    expect((await create(api, source('/tiny'))).err).toBe('Missing LXD-Image-Hash header');
  });
});

/** What the image server offers under which path. */
function documents(head: Uint8Array, root: Uint8Array, fingerprint: string): Record<string, Uint8Array> {
  const item = (path: string, ftype: string, content: Uint8Array, more: object = {}): object => ({
    path,
    ftype,
    size: content.length,
    sha256: sha(content),
    ...more,
  });
  const product = (aliases: string, combined: string, path = 'images/root.squashfs'): object => ({
    aliases,
    arch: 'amd64',
    os: 'Tiny',
    release: '1',
    versions: {
      '20260101': { items: {} },
      '20260102': {
        items: {
          lxd: item('images/lxd.tar.xz', 'lxd.tar.xz', head, { combined_squashfs_sha256: combined }),
          root: item(path, 'squashfs', root),
        },
      },
    },
  });
  const products = {
    products: {
      tiny: product('tiny,tiny/1', fingerprint),
      lying: product('lying', sha(Buffer.from('lie'))),
      escaping: product('escaping', fingerprint, '../../etc/passwd'),
    },
  };
  const index = {
    index: { images: { datatype: 'image-downloads', format: 'products:1.0', path: 'streams/v1/images.json' } },
  };
  return {
    '/streams/v1/index.json': Buffer.from(JSON.stringify(index)),
    '/streams/v1/images.json': Buffer.from(JSON.stringify(products)),
    '/images/lxd.tar.xz': head,
    '/images/root.squashfs': root,
  };
}

describe('images from another daemon', () => {
  let source: TestDaemon;
  let api: TestApi;
  let tiny: ImageFiles;
  let server: string;
  let certificate: string;
  let fingerprint: string;

  beforeAll(async () => {
    tiny = await tinyImage();
    [source, api] = await Promise.all([startDaemon(), startInProcess()]);
    const address = `127.0.0.1:${await freePort()}`;
    await source.run('PATCH', '/1.0', { config: { 'core.https_address': address } });
    server = `https://${address}`;
    certificate = readFileSync(join(source.stateDir, 'server.crt'), 'utf8');
    const { body, headers } = form(tiny.metadata, tiny.rootfs);
    fingerprint = String((await upload(source, body, headers)).metadata?.['fingerprint']);
    await source.run('POST', '/1.0/images/aliases', { name: 'tiny', target: fingerprint });
  });
  afterAll(async () => {
    await api?.[Symbol.asyncDispose]();
    await source?.[Symbol.asyncDispose]();
  });

  const from = (more: object) => ({ type: 'image', mode: 'pull', protocol: 'lxd', server, certificate, ...more });

  it('a private image only with its secret, a public one by alias', async () => {
    expect((await create(api, from({ fingerprint }))).err).toMatch(/does not exist|not found/i);
    const issued = await source.request<Operation>('POST', `/1.0/images/${fingerprint}/secret`);
    const secret = issued.body.metadata.metadata?.['secret'];
    expect(await create(api, from({ fingerprint, secret }))).toMatchObject({ err: '', metadata: { fingerprint } });
    await api.request('DELETE', `/1.0/images/${fingerprint}`);
    await source.run('PATCH', `/1.0/images/${fingerprint}`, { public: true });
    expect(await create(api, from({ alias: 'tiny' }))).toMatchObject({ err: '', metadata: { fingerprint } });
    const { body } = await api.request<Image>('GET', `/1.0/images/${fingerprint}`);
    expect(body.metadata.filename).toBe(`${fingerprint}.squashfs`);
  });

  it("Debian's LXD takes the image from us", async () => {
    await using lxd = await startLxd();
    expect(await create(lxd, from({ alias: 'tiny' }))).toMatchObject({ err: '' });
    expect((await lxd.request('GET', `/1.0/images/${fingerprint}`)).status).toBe(200);
  });
});
