import { APIException, Client, NotFound, StaleObject, StoragePool, StorageVolume } from '@keelson/client';
import { named } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Fixture, servers } from '../servers.ts';
import { withoutExtensions } from '../without-extensions.ts';

// Every row of the client library's contract is one test, under the contract's name.
describe.each(servers)('contract, storage: $name', (kind) => {
  describe.skipIf(!kind.probe.ok)(named('rows', kind.probe), () => {
    let fixture: Fixture;
    let client: Client;
    beforeAll(async () => {
      fixture = await Fixture.start(kind);
      client = fixture.client;
    });
    afterAll(() => fixture?.[Symbol.asyncDispose]());

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
        const project = await client.projects.create('far');
        await using far = new Client({ endpoint: `unix:${fixture.socket}`, project: 'far' });
        const there = await (await volume.copy({ name: 'v5', to: far })).sync();
        expect(there.project).toBe('far');
        await there.rename({ name: 'v6', to: other });
        const back = await pool.volumes.get('custom', 'v6');
        expect(back.project).toBe('default');
        await back.delete();
        await project.delete();
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
  });
});
