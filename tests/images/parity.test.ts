import {
  type Answer,
  type ImageFiles,
  startDaemon,
  startLxd,
  type TestDaemon,
  type TestPeer,
  tinyImage,
} from '@keelson/testkit';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { form, type Target, upload } from './upload.ts';

const OCTETS = { 'Content-Type': 'application/octet-stream' };
const HASH = /[0-9a-f]{64}/g;

/** What differs between any two servers: times, ids, tokens, ETags. */
function comparable(answer: Answer): unknown {
  const { metadata, ...envelope } = answer.body;
  return {
    status: answer.status,
    location: stripped(answer.headers.location ?? ''),
    hasEtag: answer.headers.etag !== undefined,
    envelope: stripped(JSON.stringify(envelope)),
    metadata: shapeOf(metadata),
  };
}

function stripped(text: string): string {
  return text.replaceAll(HASH, '<hash>').replaceAll(/operations\/[0-9a-f-]{36}/g, 'operations/<id>');
}

const VOLATILE = new Set([
  'id',
  'created_at',
  'updated_at',
  'uploaded_at',
  'last_used_at',
  'secret',
  'status',
  'status_code',
]);

/** Values as they are, but for those no two servers share. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value === 'string') return stripped(value);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => [key, VOLATILE.has(key) ? typeof member : shapeOf(member)]),
  );
}

describe('images answer as those of LXD', () => {
  let daemon: TestDaemon;
  let lxd: TestPeer;
  let tiny: ImageFiles;
  const fingerprint = { unified: '', split: '' };

  beforeAll(async () => {
    tiny = await tinyImage();
    [daemon, lxd] = await Promise.all([startDaemon(), startLxd()]);
    for (const target of [daemon, lxd]) {
      const unified = await upload(target, readFileSync(tiny.unified), {
        'X-LXD-filename': 'tiny.tar.gz',
        'X-LXD-public': 'true',
        'X-LXD-properties': 'colour=blue&os=Other',
      });
      fingerprint.unified = String(unified.metadata?.['fingerprint']);
      const { body, headers } = form(tiny.metadata, tiny.rootfs);
      fingerprint.split = String((await upload(target, body, headers)).metadata?.['fingerprint']);
    }
  });
  afterAll(async () => {
    await daemon?.[Symbol.asyncDispose]();
    await lxd?.[Symbol.asyncDispose]();
  });

  /** Our answer, and LXD's. */
  const both = async (ask: (target: Target) => Promise<unknown>): Promise<[unknown, unknown]> => [
    await ask(daemon),
    await ask(lxd),
  ];
  const fill = (path: string): string =>
    path.replace('UNIFIED', fingerprint.unified).replace('SPLIT', fingerprint.split);

  it.each<[string, string, unknown?]>([
    ['GET', '/1.0/images/UNIFIED'],
    ['GET', '/1.0/images/SPLIT'],
    ['GET', '/1.0/images?filter=properties.colour%20eq%20blue'],
    ['GET', '/1.0/images/beef'],
    ['GET', '/1.0/images/beef/export'],
    ['POST', '/1.0/images/beef/secret'],
    ['POST', '/1.0/images/beef/refresh'],
    ['DELETE', '/1.0/images/beef'],
    ['PUT', '/1.0/images/beef', {}],
    ['PATCH', '/1.0/images/UNIFIED', { properties: { added: 'yes', colour: '' } }],
    ['GET', '/1.0/images/UNIFIED'],
    ['PUT', '/1.0/images/UNIFIED', { public: false, properties: { only: 'this' } }],
    ['GET', '/1.0/images/UNIFIED'],
    ['PUT', '/1.0/images/UNIFIED', { profiles: ['nope'], properties: {} }],
    ['POST', '/1.0/images/UNIFIED/secret'],
    ['GET', '/1.0/images/aliases'],
    ['POST', '/1.0/images/aliases', { name: 'one', target: 'UNIFIED' }],
    ['POST', '/1.0/images/aliases', { name: 'one', target: 'UNIFIED' }],
    ['POST', '/1.0/images/aliases', { name: 'two', target: 'beef' }],
    ['POST', '/1.0/images/aliases', { name: '', target: 'beef' }],
    ['GET', '/1.0/images/aliases'],
    ['GET', '/1.0/images/aliases?recursion=1'],
    ['GET', '/1.0/images/aliases/one'],
    ['GET', '/1.0/images/aliases/nope'],
    ['GET', '/1.0/images/UNIFIED'],
    ['PUT', '/1.0/images/aliases/one', { description: 'no target' }],
    ['PUT', '/1.0/images/aliases/one', { description: 'split now', target: 'SPLIT' }],
    ['GET', '/1.0/images/aliases/one'],
    ['DELETE', '/1.0/images/aliases/one'],
    ['DELETE', '/1.0/images/aliases/one'],
    ['POST', '/1.0/images', { source: { type: 'instance', name: 'nope' } }],
    ['POST', '/1.0/images', { source: { type: 'container', name: 'x' }, compression_algorithm: 'foo' }],
  ])('%s %s %j', async (method, path, body) => {
    const sent = body === undefined ? undefined : (JSON.parse(fill(JSON.stringify(body))) as unknown);
    const [ours, theirs] = await both(async (target) => comparable(await target.request(method, fill(path), sent)));
    expect(ours).toEqual(theirs);
  });

  it.each([
    ['no archive', Buffer.from('hello'), {}],
    ['nothing', Buffer.alloc(0), {}],
    ['the same image again', undefined, {}],
    ['another fingerprint', undefined, { 'X-LXD-fingerprint': 'abc' }],
  ])('an upload of %s ends alike', async (_, body, headers) => {
    const [ours, theirs] = await both(async (target) => {
      const { metadata, status_code, err, description, resources, may_cancel } = await upload(
        target,
        body ?? readFileSync(tiny.unified),
        { ...OCTETS, ...headers },
      );
      return { metadata, status_code, err, description, resources, may_cancel };
    });
    expect(ours).toEqual(theirs);
  });

  it.each<[string, object]>([
    ['no URL', { type: 'url' }],
    ['neither alias nor fingerprint', { type: 'image', mode: 'pull', server: 'https://127.0.0.1:1' }],
    [
      'an unknown protocol',
      { type: 'image', mode: 'pull', server: 'https://127.0.0.1:1', protocol: 'foo', alias: 'x' },
    ],
  ])('a source with %s ends alike', async (_, source) => {
    const [ours, theirs] = await both(async (target) => {
      const started = await target.request('POST', '/1.0/images', { source });
      const ended = await target.request<{ err: string; status_code: number }>('GET', `${started.body.operation}/wait`);
      return { status: started.status, err: ended.body.metadata.err, code: ended.body.metadata.status_code };
    });
    expect(ours).toEqual(theirs);
  });

  it('a delete ends alike', async () => {
    const [ours, theirs] = await both(async (target) => {
      const started = await target.request('DELETE', `/1.0/images/${fingerprint.split}`);
      await target.request('GET', `${started.body.operation}/wait`);
      return [comparable(started), comparable(await target.request('GET', '/1.0/images'))];
    });
    expect(ours).toEqual(theirs);
  });
});
