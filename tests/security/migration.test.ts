import type { Operation } from '@keelson/api';
import { Client, type MigrationMode, NotFound } from '@keelson/client';
import {
  allOf,
  type ClientCertificate,
  clientCertificate,
  httpsCall,
  named,
  probePrograms,
  probeRoot,
  startDaemon,
  type TestDaemon,
  tinyImage,
  until,
} from '@keelson/testkit';
import { createReadStream, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const probe = allOf(probeRoot(), probePrograms('lxc-start', 'mksquashfs', 'rsync'));
const MODES = ['pull', 'push', 'relay'] as const satisfies readonly MigrationMode[];
const DEVICES = { root: { type: 'disk', path: '/', pool: 'p' } };
const VOLUMES = '/1.0/storage-pools/p/volumes/custom';

/** A server with the projects `p1`, which the tenant may use, and `p2`, which it may not. */
class Server implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly daemon: TestDaemon;
  readonly address: string;
  readonly admin: Client;
  /** The tenant's view. */
  readonly client: Client;

  private constructor(daemon: TestDaemon, address: string, own: ClientCertificate) {
    this.daemon = this.#stack.use(daemon);
    this.address = address;
    this.admin = new Client({ endpoint: `unix:${daemon.socket}`, project: 'p1' });
    this.client = new Client({
      endpoint: `https://${address}`,
      cert: { cert: own.certificate, key: own.key },
      verify: readFileSync(join(daemon.stateDir, 'server.crt'), 'utf8'),
      project: 'p1',
    });
    this.#stack.defer(() => Promise.all([this.admin.close(), this.client.close()]).then(() => undefined));
  }

  static async start(own: ClientCertificate, restrictions: Readonly<Record<string, string>>): Promise<Server> {
    const daemon = await startDaemon();
    try {
      await daemon.run('PATCH', '/1.0', { config: { 'core.https_address': '127.0.0.1:0' } });
      await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
      for (const [name, config] of Object.entries({ p1: restrictions, p2: {} }))
        await daemon.run('POST', '/1.0/projects', { name, config: { 'features.images': 'false', ...config } });
      const certificate = { name: 'tenant', type: 'client', certificate: own.base64 };
      await daemon.run('POST', '/1.0/certificates', { ...certificate, restricted: true, projects: ['p1'] });
      const { body } = await daemon.request<{ environment: { addresses: string[] } }>('GET', '/1.0');
      return new Server(daemon, body.metadata.environment.addresses[0] ?? '', own);
    } catch (error) {
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

describe.skipIf(!probe.ok)(named('a certificate limited to a project, between two servers', probe), () => {
  let own: ClientCertificate;
  let here: Server;
  let there: Server;

  beforeAll(async () => {
    own = await clientCertificate('tenant');
    here = await Server.start(own, {});
    there = await Server.start(own, { restricted: 'true', 'restricted.snapshots': 'allow' });
    const { metadata, rootfs } = await tinyImage();
    const image = await here.admin.images.create(createReadStream(rootfs), { metadata: createReadStream(metadata) });
    const source = { type: 'image', fingerprint: image.fingerprint };
    const made = await here.admin.instances.create({ name: 'c1', source, devices: DEVICES });
    await made.files.put('/root/mark', 'mine');
    await made.snapshots.create('s0');
    await here.daemon.run('POST', `${VOLUMES}?project=p1`, { name: 'v1' });
    for (const path of ['/1.0/instances', VOLUMES]) {
      const victim = { name: 'victim', ...(path === VOLUMES ? {} : { source, devices: DEVICES }) };
      await here.daemon.run('POST', `${path}?project=p2`, victim);
    }
  });
  afterAll(async () => {
    await here?.[Symbol.asyncDispose]();
    await there?.[Symbol.asyncDispose]();
  });

  const call = (server: Server, method: string, path: string, body?: unknown) =>
    httpsCall<Operation>({ ...own, address: server.address }, method, path, body);
  const idle = (server: Server): Promise<unknown> =>
    until('the operations to end', async () => {
      const { body } = await server.daemon.request<Record<string, unknown>>('GET', '/1.0/operations?all-projects=true');
      return body.metadata['running'] === undefined;
    });

  test.each(MODES)('%s: an instance, what it became, a snapshot, a volume', async (mode) => {
    const to = there.client;
    const origin = await here.client.instances.get('c1');
    await origin.copy('c2', { to, mode });
    const seen = await there.admin.instances.get('c2');
    expect(Buffer.from(await (await seen.files.get('/root/mark')).bytes()).toString()).toBe('mine');
    expect((await seen.snapshots.all()).map(({ name }) => name)).toEqual(['s0']);
    await origin.copy('c2', { to, mode, refresh: true });
    await (await origin.snapshots.get('s0')).copy('c3', { to, mode });
    const { volumes } = await here.client.storagePools.get('p');
    await (await volumes.get('custom', 'v1')).copy({ to, mode, name: 'v2' });
    expect(await (await there.admin.storagePools.get('p')).volumes.exists('custom', 'v2')).toBe(true);
    for (const name of ['c2', 'c3']) await (await to.instances.get(name)).delete();
    await (await (await to.storagePools.get('p')).volumes.get('custom', 'v2')).delete();
  });

  test.each(MODES)('%s: not into a project of others, and not out of one', async (mode) => {
    const into = { to: there.client, mode, project: 'p2' };
    const refused = expect.objectContaining({ status: 403 });
    const origin = await here.client.instances.get('c1');
    await expect(origin.copy('c2', into)).rejects.toEqual(refused);
    const volume = await (await here.client.storagePools.get('p')).volumes.get('custom', 'v1');
    await expect(volume.copy({ ...into, name: 'v2' })).rejects.toEqual(refused);
    await expect(here.client.instances.get('victim')).rejects.toBeInstanceOf(NotFound);
    for (const [path, name] of [
      ['/1.0/instances/victim', undefined],
      ['/1.0/instances/victim/snapshots/s0', 'x'],
      [`${VOLUMES}/victim`, 'victim'],
    ] as const) {
      const json = { migration: true, ...(name === undefined ? {} : { name }) };
      expect((await call(here, 'POST', `${path}?project=p2`, json)).status, path).toBe(403);
      expect((await call(here, 'POST', `${path}?project=p1`, json)).status, path).toBe(404);
    }
    for (const server of [here, there]) await idle(server);
    for (const path of ['/1.0/instances', VOLUMES])
      expect((await there.daemon.request('GET', `${path}?project=p2`)).body.metadata).toEqual([]);
  });

  test('what the project there forbids does not arrive, in a snapshot neither', async () => {
    const source = { type: 'none' };
    const config = { 'security.privileged': 'true' };
    await using bad = await here.admin.instances.create({ name: 'bad', source, config, devices: DEVICES });
    const first = await here.client.instances.get('bad');
    const into = { to: there.client, mode: 'relay' } as const;
    await expect(first.copy('bad', into)).rejects.toThrow(/privileged/i);
    await bad.snapshots.create('s0');
    await bad.patch({ config: { 'security.privileged': '' } }, { wait: true });
    await expect((await here.client.instances.get('bad')).copy('bad', into)).rejects.toThrow(/privileged/i);
    await idle(there);
    expect(await there.admin.instances.exists('bad')).toBe(false);
  });

  test('an operation of others is neither seen nor ended, and its secrets stay hidden', async () => {
    const texts: string[] = [];
    const events = here.client.events({
      types: ['operation', 'lifecycle'],
      onEvent: (event) => void texts.push(JSON.stringify(event)),
    });
    await events.opened();
    const begin = async (path: string, body: object): Promise<{ id: string; secrets: string[] }> => {
      const { metadata } = (await here.daemon.request<Operation>('POST', path, body)).body;
      return { id: metadata.id, secrets: Object.values(metadata.metadata ?? {}).map(String) };
    };
    const theirs = await begin('/1.0/instances/victim?project=p2', { migration: true });
    const mine = await begin('/1.0/instances/c1?project=p1', { migration: true });
    for (const project of ['', '?project=p1', '?project=p2']) {
      for (const [method, below] of [
        ['GET', ''],
        ['GET', '/wait'],
        ['DELETE', ''],
      ] as const) {
        const answer = await call(here, method, `/1.0/operations/${theirs.id}${below}${project}`);
        expect(answer.status, `${method} ${below}${project}`).toBe(404);
        texts.push(answer.text);
      }
      const socket = `/1.0/operations/${theirs.id}/websocket${project === '' ? '?' : `${project}&`}secret=`;
      for (const secret of ['', 'x', mine.secrets[0] ?? '']) {
        const answer = await call(here, 'GET', `${socket}${secret}`);
        expect([400, 403], answer.text).toContain(answer.status);
      }
    }
    // In the tenant's own project somebody else began one: it is seen, the secrets are not.
    const shown = await call(here, 'GET', `/1.0/operations/${mine.id}?project=p1`);
    expect(shown.status).toBe(200);
    texts.push(shown.text, (await call(here, 'GET', '/1.0/operations?project=p1&recursion=1')).text);
    await until('the events', () => texts.some((text) => text.startsWith('{') && text.includes(mine.id)));
    expect(theirs.secrets.length + mine.secrets.length).toBeGreaterThan(3);
    for (const secret of [...theirs.secrets, ...mine.secrets])
      expect(texts.filter((text) => text.includes(secret))).toEqual([]);
    expect(texts.filter((text) => text.includes('victim'))).toEqual([]);
    await events.close();
    for (const { id } of [theirs, mine]) await here.daemon.request('DELETE', `/1.0/operations/${id}`);
    await idle(here);
  });

  test('a server whose certificate is not given is not connected to', async () => {
    const operation = `https://${there.address}/1.0/operations/4c07d1fc-54cf-4f97-8d04-569cdd5506fd`;
    const secrets = { control: 'a', fs: 'b', criu: 'c' };
    const source = { type: 'migration', mode: 'pull', operation, secrets };
    const instance = { name: 'x', source, devices: DEVICES };
    expect((await call(here, 'POST', '/1.0/instances?project=p1', instance)).status).toBe(403);
    expect((await call(here, 'POST', `${VOLUMES}?project=p1`, { name: 'x', source })).status).toBe(403);
    const push = { migration: true, target: { operation, secrets } };
    expect((await call(here, 'POST', '/1.0/instances/c1?project=p1', push)).status).toBe(403);
    expect((await call(here, 'POST', `${VOLUMES}/v1?project=p1`, { name: 'v1', ...push })).status).toBe(403);
  });
});
