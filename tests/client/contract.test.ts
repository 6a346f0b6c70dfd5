import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import {
  APIException,
  APIExtensionNotAvailable,
  Certificate,
  Client,
  exportToFile,
  Image,
  type Instance,
  Network,
  NotFound,
  Profile,
  StaleObject,
  StoragePool,
  StorageVolume,
} from '@keelson/client';
import { clientCertificate, named, subnets } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { Fixture, servers } from './servers.ts';
import { withoutExtensions } from './without-extensions.ts';

const sha = (...paths: readonly string[]): string => {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(readFileSync(path));
  return hash.digest('hex');
};

// Every row of the client library's contract is one test, under the contract's name.
describe.each(servers)('contract: $name', (kind) => {
  describe.skipIf(!kind.probe.ok)(named('rows', kind.probe), () => {
    let fixture: Fixture;
    let client: Client;
    beforeAll(async () => {
      fixture = await Fixture.start(kind);
      client = fixture.client;
    });
    afterAll(() => fixture?.[Symbol.asyncDispose]());

    describe('Client', () => {
      it('Client(endpoint, version, cert, verify, timeout)', async () => {
        const { certificate, key } = await clientCertificate('contract');
        await using made = new Client({
          endpoint: `unix:${fixture.socket}`,
          version: '1.0',
          cert: { cert: certificate, key },
          verify: false,
          timeout: 30_000,
        });
        expect((await made.api.get()).status).toBe(200);
      });

      it('attributes: instances, containers, virtual_machines, images, operations, profiles, storage_pools, api', async () => {
        expect(await client.instances.all()).toEqual([]);
        expect(await client.containers.all()).toEqual([]);
        expect(await client.virtualMachines.all()).toEqual([]);
        expect(await client.images.all()).toHaveLength(1);
        expect(Object.keys(await client.operations.all())).toBeInstanceOf(Array);
        expect((await client.profiles.all()).map(({ name }) => name)).toEqual(['default']);
        expect((await client.storagePools.all()).map(({ name }) => name)).toEqual(['pool']);
        expect((await client.api.profiles['default']?.get())?.status).toBe(200);
      });

      it('has_api_extension', async () => {
        expect(await client.hasApiExtension('storage')).toBe(true);
        expect(await client.hasApiExtension('no_such_extension')).toBe(false);
      });

      it('assert_has_api_extension', async () => {
        expect(await client.assertHasApiExtension('storage')).toBeUndefined();
        const refused = client.assertHasApiExtension('no_such_extension');
        await expect(refused).rejects.toBeInstanceOf(APIExtensionNotAvailable);
      });

      it('events: types, All, and a websocket of the caller', async () => {
        const seen: string[] = [];
        await using all = client.events({ types: ['All'], onEvent: ({ type }) => seen.push(type) });
        await using some = client.events({
          types: ['lifecycle'],
          webSocket: (path) => new WebSocket(`ws+unix://${fixture.socket}:${path}`),
        });
        await Promise.all([all.opened(), some.opened()]);
        const profile = await client.profiles.create('evented');
        const events = some[Symbol.asyncIterator]();
        const { value } = await events.next();
        expect(value).toMatchObject({ type: 'lifecycle', metadata: { action: 'profile-created' } });
        expect(seen).toContain('lifecycle');
        await profile.delete();
      });
    });

    describe('Storage pool manager', () => {
      it('all() returns sparse pool objects', async () => {
        const [pool] = await client.storagePools.all();
        expect(pool).toBeInstanceOf(StoragePool);
        expect([pool?.name, pool?.populated]).toEqual(['pool', false]);
        expect(await pool?.driver).toBe('dir');
        expect(pool?.populated).toBe(true);
        expect((await client.storagePools.all({ recursion: 1 }))[0]?.driver).toBe('dir');
      });

      it('get(name) raises NotFound when absent', async () => {
        expect((await client.storagePools.get('pool')).driver).toBe('dir');
        await expect(client.storagePools.get('absent')).rejects.toBeInstanceOf(NotFound);
      });

      it('exists(name)', async () => {
        expect(await client.storagePools.exists('pool')).toBe(true);
        expect(await client.storagePools.exists('absent')).toBe(false);
      });

      it('create(definition) returns the pool and raises an API exception on failure', async () => {
        const pool = await client.storagePools.create({ name: 'made', driver: 'dir', description: 'whole body' });
        expect([pool.name, pool.description]).toEqual(['made', 'whole body']);
        await expect(client.storagePools.create({ name: 'made', driver: 'dir' })).rejects.toBeInstanceOf(APIException);
        await pool.delete();
      });

      it('each raises APIExtensionNotAvailable without the extension storage', async () => {
        await using old = await withoutExtensions();
        const { storagePools } = old.client;
        for (const call of [
          () => storagePools.all(),
          () => storagePools.get('pool'),
          () => storagePools.exists('pool'),
          () => storagePools.create({ name: 'x', driver: 'dir' }),
        ]) {
          await expect(call()).rejects.toMatchObject({ name: 'APIExtensionNotAvailable', extension: 'storage' });
        }
      });
    });

    describe('Storage pool object', () => {
      let pool: StoragePool;
      beforeAll(async () => {
        pool = await client.storagePools.create({ name: 'object', driver: 'dir' });
      });
      afterAll(() => pool?.delete());

      it('save(wait)', async () => {
        pool.description = 'saved';
        pool.config['user.place'] = 'in place';
        expect(pool.changed).toBe(true);
        await pool.save({ wait: true });
        expect(pool.changed).toBe(false);
        expect(await client.storagePools.get('object')).toMatchObject({
          description: 'saved',
          config: { 'user.place': 'in place' },
        });
        pool.config['no.such.key'] = '1';
        await expect(pool.save()).rejects.toBeInstanceOf(APIException);
        await pool.sync();
      });

      it('put(put_object, wait)', async () => {
        await pool.put({ description: 'put', config: { ...pool.config, 'user.a': '1' } }, { wait: true });
        expect([pool.description, pool.config['user.a']]).toEqual(['put', '1']);
      });

      it('patch(patch_object, wait)', async () => {
        await pool.patch({ config: { 'user.b': '2' } }, { wait: true });
        expect(pool.config['user.b']).toBe('2');
        await expect(pool.patch({ config: { 'no.such.key': '1' } })).rejects.toBeInstanceOf(APIException);
      });

      it('delete() is refused while in use', async () => {
        const used = await client.storagePools.get('pool');
        await expect(used.delete()).rejects.toBeInstanceOf(APIException);
        expect(await client.storagePools.exists('pool')).toBe(true);
        const unused = await client.storagePools.create({ name: 'unused', driver: 'dir' });
        await unused.delete();
        expect(await client.storagePools.exists('unused')).toBe(false);
      });

      it('raw_put, raw_patch do not re-synchronise', async () => {
        const before = pool.description;
        await pool.rawPut({ description: 'raw', config: pool.config }, { wait: true });
        // LXD's PATCH empties a description that it is not given.
        await pool.rawPatch({ description: 'raw', config: { 'user.c': '3' } }, { wait: true });
        expect([pool.description, pool.config['user.c']]).toEqual([before, undefined]);
        await pool.sync();
        expect([pool.description, pool.config['user.c']]).toEqual(['raw', '3']);
      });

      it('resources.get()', async () => {
        const { space } = await pool.resources.get();
        expect(space?.total).toBeGreaterThan(0);
      });

      it('volumes.create(...), volumes.all(), volumes.get(type, name)', async () => {
        const volume = await pool.volumes.create({ name: 'v1', config: {} });
        expect(volume).toBeInstanceOf(StorageVolume);
        expect((await pool.volumes.all()).map(({ type, name }) => [type, name])).toEqual([['custom', 'v1']]);
        expect((await pool.volumes.get('custom', 'v1')).content_type).toBe('filesystem');
        await expect(pool.volumes.get('custom', 'absent')).rejects.toBeInstanceOf(NotFound);
        await volume.delete();
      });
    });

    describe('Storage volume object', () => {
      let pool: StoragePool;
      let volume: StorageVolume;
      beforeAll(async () => {
        pool = await client.storagePools.create({ name: 'volumes', driver: 'dir' });
        volume = await pool.volumes.create({ name: 'v1', config: {} });
      });
      afterAll(() => pool?.delete());

      it('rename, also to another pool', async () => {
        await volume.rename('v2');
        expect([volume.name, await pool.volumes.exists('custom', 'v1')]).toEqual(['v2', false]);
        await volume.rename({ name: 'v3', pool: 'pool' });
        expect([volume.pool, volume.name]).toEqual(['pool', 'v3']);
        expect((await volume.sync()).name).toBe('v3');
        await volume.rename({ name: 'v2', pool: 'volumes' });
      });

      it('rename to another service instance', async ({ skip }) => {
        const missing = await fixture.lacks('custom_volume_backup');
        if (missing !== undefined) skip(missing);
        // The other server is this one through another client: what travels is the same.
        await using other = new Client({ endpoint: `unix:${fixture.socket}` });
        await volume.rename({ name: 'v4', to: other, pool: 'pool' });
        expect(() => volume.name).toThrow(StaleObject);
        expect(await pool.volumes.exists('custom', 'v2')).toBe(false);
        volume = await (await client.storagePools.get('pool')).volumes.get('custom', 'v4');
        await volume.rename({ name: 'v2', pool: 'volumes' });
      });

      it('put', async () => {
        await volume.put({ description: 'put', config: { ...volume.config, 'user.a': '1' } }, { wait: true });
        expect([volume.description, volume.config['user.a']]).toEqual(['put', '1']);
      });

      it('patch', async () => {
        await volume.patch({ config: { ...volume.config, 'user.b': '2' } }, { wait: true });
        expect(volume.config['user.b']).toBe('2');
      });

      it('save', async () => {
        volume.config['user.c'] = '3';
        await volume.save({ wait: true });
        expect((await pool.volumes.get('custom', volume.name)).config['user.c']).toBe('3');
      });

      it('raw_put, raw_patch', async () => {
        const before = volume.description;
        await volume.rawPut({ description: 'raw', config: volume.config }, { wait: true });
        expect(volume.description).toBe(before);
        await volume.rawPatch({ description: 'raw2' }, { wait: true });
        expect(volume.description).toBe(before);
        expect((await volume.sync()).description).toBe('raw2');
      });

      it('delete makes the object stale', async () => {
        await volume.delete();
        expect(await pool.volumes.exists('custom', 'v2')).toBe(false);
        expect(() => volume.name).toThrow(StaleObject);
        await expect(volume.sync()).rejects.toBeInstanceOf(StaleObject);
        await expect(volume.delete()).rejects.toBeInstanceOf(StaleObject);
      });
    });

    describe('Certificate', () => {
      it('create(client, password, cert_data), all(client), get(client, fingerprint)', async () => {
        const { certificate, fingerprint } = await clientCertificate('contract');
        const made = await client.certificates.create('', certificate, { name: 'contract' });
        expect(made).toBeInstanceOf(Certificate);
        expect(made.fingerprint).toBe(fingerprint);
        const all = await client.certificates.all();
        expect(all.map((one) => one.fingerprint)).toEqual([fingerprint]);
        expect((await client.certificates.get(fingerprint)).name).toBe('contract');
        await made.delete();
        await expect(client.certificates.get(fingerprint)).rejects.toBeInstanceOf(NotFound);
      });
    });

    describe('Snapshot', () => {
      let instance: Instance;
      beforeAll(async () => {
        instance = await client.instances.create({ name: 'c1', source: { type: 'image', alias: 'tiny' } });
      });
      afterAll(() => instance?.[Symbol.asyncDispose]());

      it('rename(new_name, wait)', async () => {
        const snapshot = await instance.snapshots.create('s0');
        await snapshot.rename('s1', { wait: true });
        expect((await instance.snapshots.all()).map(({ name }) => name)).toEqual(['s1']);
        expect((await snapshot.sync()).name).toBe('s1');
      });

      it('restore(wait) returns the original response', async () => {
        await instance.files.put('/root/marker', 'after');
        const snapshot = await instance.snapshots.get('s1');
        const response = await snapshot.restore({ wait: true });
        expect(response).toMatchObject({ status: 202, operation: expect.stringMatching(/^\/1\.0\/operations\//) });
        await expect(instance.files.get('/root/marker')).rejects.toBeInstanceOf(NotFound);
      });

      it('publish(public, wait) returns an Image when wait is true', async () => {
        const snapshot = await instance.snapshots.get('s1');
        const image = await snapshot.publish({ public: true, wait: true });
        expect(image).toBeInstanceOf(Image);
        expect(image?.public).toBe(true);
        await image?.delete();
      });
    });

    describe('Image', () => {
      it('all(client), get(client, fingerprint), get_by_alias(client, alias)', async () => {
        const fingerprint = sha(fixture.image.metadata, fixture.image.rootfs);
        expect((await client.images.all()).map((one) => one.fingerprint)).toEqual([fingerprint]);
        expect((await client.images.get(fingerprint)).type).toBe('container');
        expect((await client.images.getByAlias('tiny')).fingerprint).toBe(fingerprint);
        await expect(client.images.getByAlias('absent')).rejects.toBeInstanceOf(NotFound);
      });

      it('exists(client, fingerprint, alias)', async () => {
        const { fingerprint } = await client.images.getByAlias('tiny');
        expect(await client.images.exists(fingerprint)).toBe(true);
        expect(await client.images.exists('tiny', { alias: true })).toBe(true);
        expect(await client.images.exists('absent', { alias: true })).toBe(false);
      });

      it('create(client, image_data, public, wait), add_alias(name, description), delete_alias(name)', async () => {
        const image = await client.images.create(createReadStream(fixture.image.unified), {
          public: true,
          properties: { colour: 'deep blue' },
        });
        expect([image.fingerprint, image.public]).toEqual([sha(fixture.image.unified), true]);
        expect(image.properties['colour']).toBe('deep blue');
        await image.addAlias('one', 'an alias');
        expect(image.aliases).toEqual([{ name: 'one', description: 'an alias' }]);
        await image.deleteAlias('one');
        expect(image.aliases ?? []).toEqual([]);
        await image.delete();
      });

      it('create with metadata sends one multipart request; wait is ignored', async () => {
        const split = await client.images.getByAlias('tiny');
        await split.delete();
        const image = await client.images.create(createReadStream(fixture.image.rootfs), {
          metadata: createReadStream(fixture.image.metadata),
          wait: false,
        });
        expect(image.fingerprint).toBe(sha(fixture.image.metadata, fixture.image.rootfs));
        await image.addAlias('tiny');
      });

      it('create_from_url(client, url), create_from_simplestreams(client, server, alias)', async () => {
        const url = client.images.createFromUrl('https://127.0.0.1:1/image');
        await expect(url).rejects.toBeInstanceOf(APIException);
        const streams = client.images.createFromSimplestreams('https://127.0.0.1:1', 'tiny');
        await expect(streams).rejects.toBeInstanceOf(APIException);
      });

      it('copy(new_client, public, auto_update, wait)', async ({ skip }) => {
        const missing = await fixture.lacks('projects');
        if (missing !== undefined) skip(missing);
        const project = await client.projects.create('copies', { config: { 'features.images': 'true' } });
        await using other = new Client({ endpoint: `unix:${fixture.socket}`, project: 'copies' });
        const image = await client.images.getByAlias('tiny');
        const copy = await image.copy(other, { public: true, wait: true });
        expect([copy?.fingerprint, copy?.public]).toEqual([image.fingerprint, true]);
        await copy?.delete();
        await project.delete();
      });

      it('export() streams 1 kilobyte at a time into a temporary file that is deleted once closed', async () => {
        const image = await client.images.create(createReadStream(fixture.image.unified));
        const file = await exportToFile(image);
        expect(sha(file.path)).toBe(image.fingerprint);
        expect(statSync(file.path).mode & 0o777).toBe(0o600);
        await file.close();
        expect(existsSync(file.path)).toBe(false);
        await image.delete();
      });
    });

    describe('Network', () => {
      it('create, all, get, exists, rename, save', async () => {
        await using net = subnets.take();
        await using renamed = subnets.take();
        const config = { 'ipv4.address': 'none', 'ipv6.address': 'none' };
        const network = await client.networks.create(net.bridge, { description: 'made', type: 'bridge', config });
        expect(network).toBeInstanceOf(Network);
        expect((await client.networks.all()).map(({ name }) => name)).toContain(net.bridge);
        expect((await client.networks.get(net.bridge)).description).toBe('made');
        await expect(client.networks.get('absent')).rejects.toBeInstanceOf(NotFound);
        expect(await client.networks.exists(net.bridge)).toBe(true);
        expect(await client.networks.exists('absent')).toBe(false);
        network.config['ipv4.dhcp'] = 'false';
        await network.save();
        expect((await client.networks.get(net.bridge)).config['ipv4.dhcp']).toBe('false');
        const after = await network.rename(renamed.bridge);
        expect([after.name, await client.networks.exists(net.bridge)]).toEqual([renamed.bridge, false]);
        await after.delete();
      });

      it('save() does nothing when the object has no unsaved changes', async () => {
        await using net = subnets.take();
        const config = { 'ipv4.address': 'none', 'ipv6.address': 'none' };
        const network = await client.networks.create(net.bridge, { config });
        await client.networks.get(net.bridge).then((other) => other.patch({ description: 'by another' }));
        // A PUT under the old ETag would be refused, one without would undo the other's change.
        await network.save();
        expect((await network.sync()).description).toBe('by another');
        await network.delete();
      });
    });

    describe('Operation', () => {
      const begin = async (): Promise<string> => {
        const path = `/1.0/instances`;
        const body = { name: 'op1', source: { type: 'none' } };
        const answer = await client.request('POST', path, body);
        return (await answer.json<{ operation: string }>()).operation;
      };

      it('get(client, operation_id), wait()', async () => {
        const operation = await client.operations.get(await begin());
        await operation.wait();
        expect([operation.status_code, operation.status]).toEqual([200, 'Success']);
        await (await client.instances.get('op1')).delete();
        await expect(client.operations.get('00000000-0000-0000-0000-000000000000')).rejects.toBeInstanceOf(NotFound);
      });

      it('wait_for_operation(client, operation_id) blocks until it completes', async () => {
        const operation = await client.operations.waitForOperation(await begin());
        expect(operation.status_code).toBe(200);
        await (await client.instances.get('op1')).delete();
      });
    });

    describe('Profile', () => {
      it('create(client, name, config, devices), all, get, exists, rename(new_name)', async () => {
        const profile = await client.profiles.create('p1', {
          config: { 'limits.cpu': '1' },
          devices: { eth9: { type: 'none' } },
        });
        expect(profile).toBeInstanceOf(Profile);
        expect((await client.profiles.all()).map(({ name }) => name).toSorted()).toEqual(['default', 'p1']);
        expect((await client.profiles.get('p1')).devices['eth9']).toEqual({ type: 'none' });
        expect(await client.profiles.exists('p1')).toBe(true);
        await profile.rename('p2');
        expect([profile.name, await client.profiles.exists('p1')]).toEqual(['p2', false]);
        await profile.delete();
        expect(await client.profiles.exists('p2')).toBe(false);
      });
    });

    describe('Cluster', () => {
      it('Cluster.get(client), ClusterMember.all(client), ClusterMember.get(client, server_name)', async ({ skip }) => {
        const missing = await fixture.lacks('clustering');
        if (missing !== undefined) {
          await expect(client.cluster.get()).rejects.toBeInstanceOf(APIExtensionNotAvailable);
          await expect(client.cluster.members.all()).rejects.toBeInstanceOf(APIExtensionNotAvailable);
          await expect(client.cluster.members.get('x')).rejects.toBeInstanceOf(APIExtensionNotAvailable);
          skip(missing);
        }
        expect((await client.cluster.get()).enabled).toBe(false);
        await expect(client.cluster.members.all()).rejects.toBeInstanceOf(APIException);
        await expect(client.cluster.members.get('x')).rejects.toBeInstanceOf(APIException);
      });
    });

    it('what the client sends, a plain http.request finds', async () => {
      const answer = await new Promise<IncomingMessage>((resolve, reject) => {
        const options = { socketPath: fixture.socket, path: '/1.0/profiles/default', agent: false };
        httpRequest(options, resolve).once('error', reject).end();
      });
      answer.resume();
      const own = await client.api.profiles['default']?.get();
      expect(own?.headers['etag']).toBe(answer.headers.etag);
    });
  });
});
