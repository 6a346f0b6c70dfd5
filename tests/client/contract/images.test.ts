import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs';
import { APIException, Client, exportToFile, Image, type Instance, NotFound } from '@keelson/client';
import { named } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Fixture, servers } from '../servers.ts';

const sha = (...paths: readonly string[]): string => {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(readFileSync(path));
  return hash.digest('hex');
};

// Every row of the client library's contract is one test, under the contract's name.
describe.each(servers)('contract, images and snapshots: $name', (kind) => {
  describe.skipIf(!kind.probe.ok)(named('rows', kind.probe), () => {
    let fixture: Fixture;
    let client: Client;
    beforeAll(async () => {
      fixture = await Fixture.start(kind);
      client = fixture.client;
    });
    afterAll(() => fixture?.[Symbol.asyncDispose]());

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
  });
});
