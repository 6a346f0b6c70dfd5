import { type IncomingMessage, request as httpRequest } from 'node:http';
import {
  APIException,
  APIExtensionNotAvailable,
  Certificate,
  Client,
  Network,
  NotFound,
  Profile,
} from '@keelson/client';
import { clientCertificate, named, subnets } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { Fixture, servers } from '../servers.ts';

// Every row of the client library's contract is one test, under the contract's name.
describe.each(servers)('contract, client: $name', (kind) => {
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

    it('what the client sends, a plain http.request finds', async () => {
      const answer = await new Promise<IncomingMessage>((resolve, reject) => {
        const options = { socketPath: fixture.socket, path: '/1.0/profiles/default', agent: false };
        httpRequest(options, resolve).once('error', reject).end();
      });
      answer.resume();
      const own = await client.api.profiles['default']?.get();
      expect(own?.headers['etag']).toBe(answer.headers.etag);
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
  });
});
