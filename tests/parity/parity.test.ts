import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import {
  type Answer,
  command,
  freePort,
  startDaemon,
  startLxd,
  subnets,
  type TestDaemon,
  type TestPeer,
  type TestSubnet,
  tinyImage,
} from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Case, Names } from './case.ts';
import { cases } from './cases.ts';
import { differences } from './differences.ts';
import { sameShape, shapeOf } from './shape.ts';

type Server = Pick<TestDaemon, 'request'>;

/** What is compared of an answer: status, kind, error code, structure, chosen values; of an operation also its end. */
interface Outcome {
  readonly status: number;
  readonly type: string;
  readonly code: number;
  readonly error: string;
  readonly shape: string;
  readonly ended: number | undefined;
  readonly description: string;
  readonly values: unknown;
}

async function send(server: Server, one: Case, names: Names): Promise<Outcome> {
  const options = one.headers === undefined ? {} : { headers: one.headers };
  const answer = await server.request(one.method, one.path(names), one.body?.(names), options);
  return outcome(server, one, answer, names);
}

async function outcome(server: Server, one: Case, answer: Answer, names: Names): Promise<Outcome> {
  const { status, body } = answer;
  const started = body?.type === 'async' && !one.loose && one.begins === undefined;
  const done = started
    ? await server.request<Record<string, unknown>>('GET', `${body.operation.split('?')[0]}/wait?timeout=60`)
    : undefined;
  const record = done?.body.metadata ?? body?.metadata;
  const begun = body?.type === 'async' && one.begins !== undefined;
  const cancelled = begun ? await begin(server, one, answer, names) : undefined;
  if (started) dropProgress(record);
  const operation = (started ? record : {}) as { status_code?: number; err?: string; description?: string };
  return {
    status,
    type: body?.type ?? 'none',
    code: body?.error_code ?? 0,
    error: operation.err || body?.error || '',
    shape: one.loose ? 'any' : shapeOf(record),
    ended: operation.status_code ?? cancelled,
    description: operation.description ?? '',
    values: one.values?.(record),
  };
}

/** Keeps the operation for a later case; resolves with how it ended when it is to be cancelled. */
async function begin(server: Server, one: Case, { body }: Answer, names: Names): Promise<number | undefined> {
  const path = body.operation.split('?')[0] ?? '';
  const { metadata } = body.metadata as { metadata: Record<string, string> | null };
  names.begun = { operation: `${names.https}${path}`, secrets: metadata ?? {} };
  if (one.begins === 'leave') return undefined;
  await server.request('DELETE', path);
  const done = await server.request<{ status_code: number }>('GET', `${path}/wait?timeout=60`);
  return done.body.metadata.status_code;
}

/** Where the server may listen, and its certificate. */
async function endpoint(server: Server): Promise<Pick<Names, 'https' | 'certificate'>> {
  const { body } = await server.request<{ environment: { certificate: string } }>('GET', '/1.0');
  return { https: `https://127.0.0.1:${await freePort()}`, certificate: body.metadata.environment.certificate };
}

/** How far an operation came is news, not structure: each server tells its own steps. */
function dropProgress(record: unknown): void {
  const metadata = (record as { metadata?: Record<string, unknown> | null } | undefined)?.metadata ?? {};
  for (const key of Object.keys(metadata)) if (key === 'progress' || key.endsWith('_progress')) delete metadata[key];
}

/** What disagrees, as text; empty when nothing does. */
function compare(lxd: Outcome, ours: Outcome): string {
  const found: string[] = [];
  if (lxd.status !== ours.status || lxd.code !== ours.code)
    found.push(`status ${lxd.status}/${lxd.code} against ${ours.status}/${ours.code}`);
  if (lxd.type !== ours.type) found.push(`type ${lxd.type} against ${ours.type}`);
  if (lxd.ended !== ours.ended) found.push(`operation ended ${lxd.ended} against ${ours.ended}`);
  if (lxd.description !== ours.description) found.push(`operation "${lxd.description}" against "${ours.description}"`);
  if (!isDeepStrictEqual(lxd.values, ours.values))
    found.push(`values ${JSON.stringify(lxd.values)} against ${JSON.stringify(ours.values)}`);
  if (!sameShape(lxd.shape, ours.shape)) found.push(`structure\n  ${lxd.shape}\n  ${ours.shape}`);
  return found.length === 0 ? '' : `${found.join('\n')}\n  LXD says:  ${lxd.error}\n  Keelson says: ${ours.error}`;
}

async function importImage(server: Server): Promise<string> {
  const { unified } = await tinyImage();
  const headers = { 'Content-Type': 'application/octet-stream' };
  const { body } = await server.request('POST', '/1.0/images', readFileSync(unified), { headers });
  const done = await server.request<{ metadata: { fingerprint: string } }>('GET', `${body.operation}/wait`);
  return done.body.metadata.metadata.fingerprint;
}

/** A volume `kept` with a file, and another in its snapshot `s0`. */
async function volumeBackup(folder: string): Promise<Uint8Array> {
  const index = `name: kept
backend: dir
pool: p1
snapshots:
- s0
optimized: false
optimized_header: false
type: custom
config:
  volume:
    config:
      user.kept: "1"
    description: of before
    name: kept
    type: custom
    used_by: []
    location: none
    content_type: filesystem
    project: default
    created_at: 2025-01-01T00:00:00Z
  volume_snapshots:
  - description: ""
    expires_at: 0001-01-01T00:00:00Z
    name: s0
    config:
      user.kept: "1"
    content_type: filesystem
    created_at: 2025-01-01T00:00:00Z
`;
  const top = join(folder, 'backup');
  for (const part of ['volume', 'volume-snapshots/s0']) mkdirSync(join(top, part), { recursive: true });
  writeFileSync(join(top, 'index.yaml'), index);
  writeFileSync(join(top, 'volume/file'), 'new');
  writeFileSync(join(top, 'volume-snapshots/s0/file'), 'old');
  const file = join(folder, 'backup.tar');
  const members = ['backup/index.yaml', 'backup/volume-snapshots/s0', 'backup/volume'];
  await command('tar', ['-cf', file, '-C', folder, ...members]);
  return readFileSync(file);
}

describe('parity with LXD 5.0.2', () => {
  const stack = new AsyncDisposableStack();
  let ours: { server: TestDaemon; names: Names };
  let theirs: { server: TestPeer; names: Names };

  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'keelson-parity-'));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const nets: TestSubnet[] = [stack.use(subnets.take()), stack.use(subnets.take())];
    const backup = await volumeBackup(folder);
    const [daemon, lxd] = await Promise.all([startDaemon(), startLxd()]);
    stack.use(daemon);
    stack.use(lxd);
    const names = async (server: Server, net: TestSubnet | undefined): Promise<Names> => ({
      bridge: net?.bridge ?? '',
      address: net?.address ?? '',
      fingerprint: await importImage(server),
      folder,
      backup,
      ...(await endpoint(server)),
      begun: { operation: '', secrets: {} },
    });
    ours = { server: daemon, names: await names(daemon, nets[0]) };
    theirs = { server: lxd, names: await names(lxd, nets[1]) };
  }, 120_000);

  afterAll(() => stack.disposeAsync(), 120_000);

  it('has a case for every difference', () => {
    const known = new Set(cases.map(({ name }) => name));
    expect(Object.keys(differences).filter((name) => !known.has(name))).toEqual([]);
    expect(known.size).toBe(cases.length);
  });

  it.each(cases.map((one) => [one.name, one] as const))('%s', async (name, one) => {
    const [lxd, mine] = await Promise.all([send(theirs.server, one, theirs.names), send(ours.server, one, ours.names)]);
    const disagreement = compare(lxd, mine);
    const allowed = differences[name];
    if (allowed === undefined) expect(disagreement).toBe('');
    else {
      expect(disagreement, 'agrees now: take it out of the table').not.toBe('');
      if (allowed.status !== undefined) expect([lxd.status, mine.status]).toEqual(allowed.status);
    }
  });
});
