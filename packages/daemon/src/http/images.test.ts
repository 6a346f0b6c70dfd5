import type { Image, ImageAliasesEntry, Operation } from '@keelson/api';
import { request, startInProcess, type TestApi, until } from '@keelson/testkit';
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { hostileImages, makeTar, METADATA } from '../host/archives/hostile.test-data.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startInProcess();
});
afterAll(() => api[Symbol.asyncDispose]());

const metadata = { name: 'metadata.yaml', text: METADATA };
let serial = 0;
/** A sound image no other test has. */
const image = (): Promise<Buffer> => {
  const entries = [metadata, { name: 'rootfs/', type: 'directory' as const }];
  return makeTar([...entries, { name: 'rootfs/serial', text: String(serial++) }]);
};
const sha = (...parts: readonly Uint8Array[]): string => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
};
const octets = { 'Content-Type': 'application/octet-stream' };

async function upload(body: Uint8Array, headers: Record<string, string> = octets): Promise<Operation> {
  const started = await api.request('POST', '/1.0/images', body, { headers: { ...octets, ...headers } });
  expect(started.status).toBe(202);
  return (await api.request<Operation>('GET', `${started.body.operation}/wait`)).body.metadata;
}

async function imported(headers: Record<string, string> = {}): Promise<string> {
  const done = await upload(await image(), headers);
  expect(done.err).toBe('');
  return String(done.metadata?.['fingerprint']);
}

const read = (fingerprint: string) => api.request<Image>('GET', `/1.0/images/${fingerprint}`);

function form(parts: readonly [string, string, Uint8Array][]): [Uint8Array, Record<string, string>] {
  const chunks = parts.flatMap(([field, filename, body]) => [
    Buffer.from(`--xyz\r\nContent-Disposition: form-data; name="${field}"; filename="${filename}"\r\n\r\n`),
    body,
    Buffer.from('\r\n'),
  ]);
  return [
    Buffer.concat([...chunks, Buffer.from('--xyz--\r\n')]),
    { 'Content-Type': 'multipart/form-data; boundary=xyz' },
  ];
}

describe('import', () => {
  test('a unified image, with what its headers say', async () => {
    const body = await image();
    const done = await upload(body, {
      'X-LXD-filename': 'tiny.tar',
      'X-LXD-public': 'true',
      'X-LXD-properties': 'os=Other&colour=blue&empty=',
      'X-LXD-fingerprint': sha(body),
    });
    expect(done).toMatchObject({
      description: 'Downloading image',
      status_code: 200,
      metadata: { fingerprint: sha(body), size: String(body.length) },
    });
    expect((await read(sha(body))).body.metadata).toEqual({
      aliases: [],
      architecture: 'x86_64',
      auto_update: false,
      cached: false,
      created_at: '2023-11-14T22:13:20Z',
      expires_at: '1970-01-01T00:00:00Z',
      filename: 'tiny.tar',
      fingerprint: sha(body),
      last_used_at: '0001-01-01T00:00:00Z',
      profiles: ['default'],
      properties: { os: 'Other', colour: 'blue' },
      public: true,
      size: body.length,
      type: 'container',
      uploaded_at: expect.any(String) as string,
    });
  });

  test('a split image; its fingerprint is over both files', async () => {
    const head = await makeTar([metadata]);
    const root = await makeTar([
      { name: 'etc/', type: 'directory' },
      { name: 'etc/split', text: String(serial++) },
    ]);
    const [body, headers] = form([
      ['metadata', 'meta.tar', head],
      ['rootfs', 'root.tar', root],
    ]);
    const done = await upload(body, headers);
    expect(done.metadata).toEqual({ fingerprint: sha(head, root), size: String(head.length + root.length) });
    expect((await read(sha(head, root))).body.metadata.filename).toBe('root.tar');
    const exported = await api.request('GET', `/1.0/images/${sha(head, root)}/export`);
    expect(exported.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/);
    expect(Number(exported.headers['content-length'])).toBe(Buffer.byteLength(exported.text));
    expect(exported.text).toContain(`name="metadata"; filename="meta-${sha(head, root)}.tar"`);
    expect(exported.text).toContain(`name="rootfs"; filename="${sha(head, root)}.tar"`);
    expect(exported.text).toContain(root.toString());
  });

  test('the same image again is refused', async () => {
    const body = await image();
    await upload(body);
    const again = await upload(body);
    expect([again.status_code, again.err]).toEqual([400, 'Image with same fingerprint already exists']);
    expect(again.metadata).toEqual({ fingerprint: sha(body), size: String(body.length) });
  });

  test('a client that goes away in the middle leaves nothing behind', async () => {
    const before = (await api.request('GET', '/1.0/images')).body.metadata;
    const body = await image();
    const headers = { ...octets, 'Content-Length': String(body.length + 1) };
    const sent = httpRequest({ socketPath: api.socket, method: 'POST', path: '/1.0/images', headers });
    sent.on('error', () => undefined);
    sent.write(body);
    const scratch = (): string[] =>
      readdirSync(join(api.stateDir, 'images')).filter((name) => name.startsWith('.incoming-'));
    await until('the upload to begin', () => scratch().length > 0);
    sent.destroy();
    await until('the upload to be cleaned up', () => scratch().length === 0);
    expect((await api.request('GET', '/1.0/images')).body.metadata).toEqual(before);
  });

  test.each([
    ['no archive', Buffer.from('hello'), {}, 'Unsupported compression'],
    ['nothing', Buffer.alloc(0), {}, 'EOF'],
    ['an unknown profile', undefined, { 'X-LXD-profiles': 'profile=nope' }, "Profile 'nope' doesn't exist"],
    [
      'another fingerprint',
      undefined,
      { 'X-LXD-fingerprint': 'abc' },
      /^fingerprints don't match, got [0-9a-f]+ expected abc$/,
    ],
    ['a form without root', ...form([['metadata', 'm', Buffer.from('x')]]), 'EOF'],
    ['a form in the wrong order', ...form([['rootfs', 'r', Buffer.from('x')]]), 'Invalid multipart image'],
  ])('%s ends the operation with status 400', async (_, body, headers, message) => {
    const done = await upload(body ?? (await image()), headers as Record<string, string>);
    expect(done.status_code).toBe(400);
    expect(done.err).toMatch(message);
  });

  test.each([
    ['architecture: foo\ncreation_date: 5\n', "Architecture isn't supported: foo"],
    ['creation_date: 5\n', "Architecture isn't supported: "],
    ['architecture: x86_64\n', 'Missing creation date'],
    ['architecture: x86_64\ncreation_date: soon\n', /"creation_date" must be a number/],
    ['a: [\n', /^Invalid metadata.yaml: /],
    ['- x\n', 'Invalid metadata.yaml: it must be a map'],
    ['a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: &d [*c,*c]\ne: &e [*d,*d]\nf: [*e,*e]\n', /Invalid metadata/],
    [
      'architecture: x86_64\ncreation_date: 5\ntemplates:\n  /etc/x:\n    template: ../../x\n',
      /template "\/etc\/x" must name/,
    ],
    ['architecture: x86_64\ncreation_date: 5\ntemplates:\n  ../x:\n    template: x\n', /must be an absolute path/],
  ])('metadata.yaml %j is refused', async (text, message) => {
    const done = await upload(
      await makeTar([
        { name: 'metadata.yaml', text },
        { name: 'rootfs/', type: 'directory' },
      ]),
    );
    expect(done.status_code).toBe(400);
    expect(done.err).toMatch(message);
  });
});

describe('hostile images leave nothing behind', () => {
  const state = async (): Promise<unknown> => ({
    images: readdirSync(join(api.stateDir, 'images')).toSorted(),
    records: (await api.request('GET', '/1.0/images')).body.metadata,
    aliases: (await api.request('GET', '/1.0/images/aliases')).body.metadata,
  });
  let before: unknown;
  beforeEach(async () => {
    await imported();
    before = await state();
  });

  test.each(hostileImages)('$what', async ({ entries, names }) => {
    const done = await upload(await makeTar(entries), { 'X-LXD-aliases': 'alias=hostile' });
    expect(done.status_code).toBe(400);
    expect(done.err).toMatch(names);
    expect(await state()).toEqual(before);
  });
});

describe('records', () => {
  test('a prefix of the fingerprint is enough; what is unknown or ambiguous is not found', async () => {
    const fingerprint = await imported();
    expect((await read(fingerprint.slice(0, 12))).body.metadata.fingerprint).toBe(fingerprint);
    for (const name of ['0'.repeat(64), 'nothex', '..%2f..', `${fingerprint}0`]) {
      const { status, body } = await read(name);
      expect([status, body.error]).toEqual([404, 'Image not found']);
    }
  });

  test('PUT replaces, PATCH merges, If-Match is honoured', async () => {
    const fingerprint = await imported({ 'X-LXD-properties': 'a=1' });
    const path = `/1.0/images/${fingerprint}`;
    const { headers } = await read(fingerprint);
    await api.request('PATCH', path, { public: true, properties: { b: '2' } });
    expect((await read(fingerprint)).body.metadata).toMatchObject({
      public: true,
      properties: { a: '1', b: '2', os: 'Tiny' },
    });
    const stale = await api.request('PUT', path, {}, { headers: { 'If-Match': String(headers.etag) } });
    expect(stale.status).toBe(412);
    const put = { properties: { c: '3', gone: '' }, expires_at: '2030-01-01T00:00:00Z', auto_update: true };
    expect((await api.request('PUT', path, put)).status).toBe(200);
    expect((await read(fingerprint)).body.metadata).toMatchObject({
      public: false,
      auto_update: true,
      expires_at: '2030-01-01T00:00:00Z',
      properties: { c: '3' },
    });
    expect((await api.request('PATCH', path, { profiles: ['nope'] })).body.error).toBe("Profile 'nope' doesn't exist");
    expect((await api.request('PATCH', path, { public: 'x' })).status).toBe(400);
  });

  test('delete takes files, record and aliases', async () => {
    const fingerprint = await imported();
    await api.request('POST', '/1.0/images/aliases', { name: 'doomed', target: fingerprint });
    const { body } = await api.request<Operation>('DELETE', `/1.0/images/${fingerprint}`);
    expect(body.metadata.resources).toEqual({ images: [`/1.0/images/${fingerprint}`] });
    const done = await api.request<Operation>('GET', `${body.operation}/wait`);
    expect(done.body.metadata.err).toBe('');
    expect((await read(fingerprint)).status).toBe(404);
    expect((await api.request('GET', '/1.0/images/aliases/doomed')).status).toBe(404);
    expect(readdirSync(join(api.stateDir, 'images')).filter((name) => name.startsWith(fingerprint))).toEqual([]);
    expect((await api.request('DELETE', `/1.0/images/${fingerprint}`)).status).toBe(404);
  });

  test('lists filter by property', async () => {
    const fingerprint = await imported({ 'X-LXD-properties': 'needle=yes' });
    const { body } = await api.request('GET', '/1.0/images?filter=properties.needle%20eq%20yes');
    expect(body.metadata).toEqual([`/1.0/images/${fingerprint}`]);
  });

  test.each([
    ['{}', 'Invalid images JSON'],
    ['{"source":{"type":"foo"}}', 'Invalid images JSON'],
  ])('POST %s is refused', async (body, error) => {
    const answer = await api.request('POST', '/1.0/images', body);
    expect([answer.status, answer.body.error]).toEqual([400, error]);
  });

  test('an instance that is not there cannot be published, nor with an unknown compression', async () => {
    const source = { type: 'instance', name: 'nope' };
    const missing = await api.request('POST', '/1.0/images', { source });
    expect([missing.status, missing.body.error]).toEqual([404, 'Instance not found']);
    const wrong = await api.request('POST', '/1.0/images', { source, compression_algorithm: 'gzip -9; rm' });
    expect([wrong.status, wrong.body.error]).toEqual([400, 'Invalid compression algorithm "gzip -9; rm"']);
  });
});

describe('untrusted callers', () => {
  test('see and export public images only', async () => {
    const socket = await api.as('untrusted');
    const hidden = await imported();
    const shown = await imported({ 'X-LXD-public': 'true' });
    const get = (path: string) => request<string[]>(socket, 'GET', path);
    const list = (await get('/1.0/images')).body.metadata;
    expect(list).toContain(`/1.0/images/${shown}`);
    expect(list).not.toContain(`/1.0/images/${hidden}`);
    expect((await get(`/1.0/images/${shown}/export`)).status).toBe(200);
    for (const path of [`/1.0/images/${hidden}`, `/1.0/images/${hidden}/export`, `/1.0/images/${hidden}?secret=x`]) {
      expect((await get(path)).status).toBe(404);
    }
    expect((await request(socket, 'POST', '/1.0/images', await image(), { headers: octets })).status).toBe(403);
    expect((await request(socket, 'DELETE', `/1.0/images/${shown}`)).status).toBe(403);
    expect((await get('/1.0/images/aliases')).status).toBe(403);
  });

  test('a secret opens an image for one download', async () => {
    const socket = await api.as('untrusted');
    const fingerprint = await imported();
    const issued = await api.request<Operation>('POST', `/1.0/images/${fingerprint}/secret`);
    expect(issued.body.metadata).toMatchObject({
      class: 'token',
      description: 'Image download token',
      may_cancel: true,
    });
    const secret = String(issued.body.metadata.metadata?.['secret']);
    const get = (path: string) => request(socket, 'GET', `/1.0/images/${fingerprint}${path}?secret=${secret}`);
    expect((await get('')).status).toBe(200);
    expect((await get('/export')).status).toBe(200);
    expect((await get('/export')).status).toBe(404);
  });

  test('a restricted caller uploads to its project and cannot have images fetched', async () => {
    const socket = await api.as('restricted', ['default']);
    expect((await request(socket, 'POST', '/1.0/images', await image(), { headers: octets })).status).toBe(202);
    const source = { type: 'url', url: 'http://127.0.0.1:1/' };
    expect((await request(socket, 'POST', '/1.0/images', { source })).status).toBe(403);
    const other = await api.as('restricted', ['other']);
    expect((await request(other, 'POST', '/1.0/images', await image(), { headers: octets })).status).toBe(403);
  });
});

describe('aliases', () => {
  const path = '/1.0/images/aliases';
  const get = (name: string) => api.request<ImageAliasesEntry>('GET', `${path}/${name}`);

  test('create, read, list, change, rename, delete', async () => {
    const target = await imported();
    const made = await api.request('POST', path, { name: 'debian/12', description: 'd', target: target.slice(0, 12) });
    expect([made.status, made.headers.location, made.body.metadata]).toEqual([201, `${path}/debian%2F12`, null]);
    const entry = { name: 'debian/12', description: 'd', target, type: 'container' };
    expect((await get('debian%2F12')).body.metadata).toEqual(entry);
    expect((await get('debian/12')).body.metadata).toEqual(entry);
    expect((await read(target)).body.metadata.aliases).toEqual([{ name: 'debian/12', description: 'd' }]);
    const list = await api.request<ImageAliasesEntry[]>('GET', `${path}?recursion=1`);
    expect(list.body.metadata).toContainEqual(entry);

    const other = await imported();
    expect((await api.request('PUT', `${path}/debian%2F12`, { target: other })).status).toBe(200);
    expect((await get('debian%2F12')).body.metadata).toMatchObject({ description: '', target: other });
    expect((await api.request('PATCH', `${path}/debian%2F12`, { description: 'x' })).status).toBe(200);
    expect((await get('debian%2F12')).body.metadata).toMatchObject({ description: 'x', target: other });

    const renamed = await api.request('POST', `${path}/debian%2F12`, { name: 'bookworm' });
    expect([renamed.status, renamed.headers.location]).toEqual([201, `${path}/bookworm`]);
    expect((await get('debian%2F12')).status).toBe(404);
    expect((await api.request('DELETE', `${path}/bookworm`)).status).toBe(200);
    expect((await api.request('DELETE', `${path}/bookworm`)).body.error).toBe('Image alias not found');
  });

  test('what LXD refuses is refused', async () => {
    const target = await imported();
    await api.request('POST', path, { name: 'taken', target });
    const refused = async (method: string, where: string, body: object): Promise<unknown> => {
      const answer = await api.request(method, where, body);
      return [answer.status, answer.body.error];
    };
    expect(await refused('POST', path, { name: 'taken', target })).toEqual([409, 'Alias "taken" already exists']);
    expect(await refused('POST', path, { name: '', target })).toEqual([400, 'name and target are required']);
    expect(await refused('POST', path, { name: 'x', target: 'beef' })).toEqual([404, 'Image not found']);
    expect(await refused('PUT', `${path}/taken`, { description: 'x' })).toEqual([400, 'The target field is required']);
    expect(await refused('POST', `${path}/taken`, { name: 'taken' })).toEqual([409, 'Alias "taken" already exists']);
    expect(await refused('POST', `${path}/taken`, { name: '' })).toEqual([400, 'Alias name is required']);
  });

  test('a taken alias in an upload leaves nothing behind', async () => {
    const target = await imported();
    await api.request('POST', path, { name: 'mine', target });
    const body = await image();
    const done = await upload(body, { 'X-LXD-aliases': 'alias=mine' });
    expect([done.status_code, done.err]).toEqual([400, 'Alias "mine" already exists']);
    expect((await read(sha(body))).status).toBe(404);
    expect(readdirSync(join(api.stateDir, 'images'))).not.toContain(sha(body));
  });
});
