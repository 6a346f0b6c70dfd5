import { createReadStream } from 'node:fs';
import { APIException, type Client, type MigrationMode, NotFound, StaleObject } from '@keelson/client';
import { allOf, named, probeRoot, until } from '@keelson/testkit';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { freePort } from './free-port.ts';
import { Fixture, servers } from './servers.ts';

const DIRECT = ['relay', 'pull', 'push'] as const satisfies readonly MigrationMode[];

/** Makes a server listen on the network; without, only a relay can reach it. */
async function listen({ client }: Fixture, on: boolean): Promise<void> {
  const { metadata } = await (await client.api.get()).json();
  const now = 'environment' in metadata ? (metadata.config['core.https_address'] ?? '') : '';
  if ((now !== '') === on) return;
  await client.server.patch({ 'core.https_address': on ? `127.0.0.1:${await freePort()}` : '' });
}

async function text(client: Client, instance: string, path: string): Promise<string> {
  const file = await (await client.instances.get(instance)).files.get(path);
  return Buffer.from(await file.bytes()).toString();
}

/** Copies an instance and a volume, then brings the copies up to date. @returns the servers that told of progress */
async function refreshes(from: Fixture, to: Fixture): Promise<readonly string[]> {
  const sides = new Set<string>();
  const way = { to: to.client, onProgress: (_operation: unknown, side: string) => void sides.add(side) };
  await using origin = await from.client.instances.create({ name: 'r1', source: { type: 'image', alias: 'tiny' } });
  await origin.snapshots.create('s0');
  await using copy = await origin.copy('r2', way);
  await origin.files.put('/root/mark', 'newer');
  const s1 = await origin.snapshots.create('s1');
  await origin.patch({ config: { 'user.mark': 'newer' } }, { wait: true });
  await origin.sync();
  await origin.copy('r2', { ...way, refresh: true });
  await copy.sync();
  expect(await text(to.client, 'r2', '/root/mark')).toBe('newer');
  expect((await copy.snapshots.all()).map(({ name }) => name).toSorted()).toEqual(['s0', 's1']);
  expect(copy.config['user.mark']).toBe('newer');
  await using alone = await s1.copy('r3', way);
  expect(await text(to.client, alone.name, '/root/mark')).toBe('newer');

  const volume = await (await from.client.storagePools.get('pool')).volumes.create({ name: 'r1', config: {} });
  await volume.snapshots.create({ name: 's0' });
  const other = await volume.copy({ ...way, name: 'r2' });
  await volume.snapshots.create({ name: 's1' });
  await volume.copy({ ...way, name: 'r2', refresh: true });
  const names = (await other.snapshots.all()).map(({ name }) => name.split('/').at(-1));
  expect(names.toSorted((a = '', b = '') => a.localeCompare(b))).toEqual(['s0', 's1']);
  const single = await volume.copy({ ...way, name: 'r3', snapshot: 's1' });
  expect(await single.snapshots.all()).toEqual([]);
  const project = await to.client.projects.create('far');
  const far = await volume.copy({ ...way, project: 'far', volumeOnly: true });
  expect(far.project).toBe('far');
  const { volumes } = await from.client.storagePools.get('pool');
  expect((await volumes.all({ type: 'custom' })).map(({ name }) => name.split('/')[0])).not.toContain('copy');
  for (const one of [far, single, other, volume]) await one.delete();
  await project.delete();
  return [...sides].toSorted();
}

describe.each(servers)('migration: $name', (kind) => {
  describe.skipIf(!kind.probe.ok)(named('between two servers', kind.probe), () => {
    let here: Fixture;
    let there: Fixture;
    beforeAll(async () => {
      [here, there] = await Promise.all([Fixture.start(kind), Fixture.start(kind)]);
    });
    afterAll(async () => {
      await Promise.all([here?.[Symbol.asyncDispose](), there?.[Symbol.asyncDispose]()]);
    });

    /** Only the server that is connected to listens. */
    async function prepare(mode: MigrationMode): Promise<void> {
      await listen(here, mode === 'pull');
      await listen(there, mode === 'push');
    }

    describe.each(DIRECT)('%s', (mode) => {
      beforeEach(() => prepare(mode));

      it('an instance is copied with its snapshots', async ({ skip }) => {
        const missing = await here.lacks('container_push', 'container_push_target');
        if (missing !== undefined) skip(missing);
        await using origin = await here.client.instances.create({
          name: 'm1',
          source: { type: 'image', alias: 'tiny' },
        });
        await origin.files.put('/root/mark', mode);
        await origin.snapshots.create('s0');
        await using copy = await origin.copy('m2', { to: there.client, mode, change: { description: mode } });
        expect([copy.name, copy.status, copy.description]).toEqual(['m2', 'Stopped', mode]);
        expect(await text(there.client, 'm2', '/root/mark')).toBe(mode);
        expect((await copy.snapshots.all()).map(({ name }) => name)).toEqual(['s0']);
        await using bare = await origin.copy('m3', { to: there.client, mode, instanceOnly: true });
        expect(await bare.snapshots.all()).toEqual([]);
      });

      it('a volume is copied and moved', async ({ skip }) => {
        const missing = await here.lacks('storage_api_remote_volume_handling');
        if (missing !== undefined) skip(missing);
        const pool = await here.client.storagePools.get('pool');
        const other = await there.client.storagePools.get('pool');
        const volume = await pool.volumes.create({ name: 'v1', config: { 'user.mark': mode } });
        await volume.snapshots.create({ name: 's0' });
        const copy = await volume.copy({ name: 'v2', to: there.client, mode });
        expect([copy.name, copy.config['user.mark']]).toEqual(['v2', mode]);
        expect((await copy.snapshots.all()).map(({ name }) => name.split('/').at(-1))).toEqual(['s0']);
        await volume.rename({ name: 'v3', to: there.client, mode, volumeOnly: true });
        expect(() => volume.name).toThrow(StaleObject);
        expect([await pool.volumes.exists('custom', 'v1'), await other.volumes.exists('custom', 'v3')]).toEqual([
          false,
          true,
        ]);
        await (await other.volumes.get('custom', 'v3')).delete();
        await copy.delete();
      });
    });

    it('a refresh, a snapshot alone, another project, with the progress of both sides', async ({ skip }) => {
      const missing = await here.lacks('container_incremental_copy', 'custom_volume_refresh');
      if (missing !== undefined) skip(missing);
      await prepare('pull');
      expect(await refreshes(here, there)).toEqual(['source', 'target']);
    });

    it('without a mode the most direct way is taken; the moved instance is gone here', async () => {
      await prepare('pull');
      const origin = await here.client.instances.create({ name: 'm4', source: { type: 'image', alias: 'tiny' } });
      await using moved = await origin.moveTo(there.client, { name: 'm5', pool: 'pool' });
      expect([moved.name, moved.expanded_devices?.['root']?.['pool']]).toEqual(['m5', 'pool']);
      expect(() => origin.name).toThrow(StaleObject);
      await expect(here.client.instances.get('m4')).rejects.toBeInstanceOf(NotFound);
    });

    it.each([true, false])(
      'an image is copied, by the other server itself or through the client: %s',
      async (direct) => {
        await prepare(direct ? 'pull' : 'relay');
        const image = await here.client.images.create(createReadStream(here.image.unified), {
          properties: { mark: 'x' },
        });
        const copy = await image.copy(there.client, { wait: true });
        expect([copy?.fingerprint, copy?.public, copy?.properties['mark']]).toEqual([image.fingerprint, false, 'x']);
        await copy?.delete();
        await image.delete();
      },
    );

    it('as a backup', async ({ skip }) => {
      const missing = await here.lacks('container_backup', 'custom_volume_backup');
      if (missing !== undefined) skip(missing);
      await using origin = await here.client.instances.create({ name: 'm6', source: { type: 'image', alias: 'tiny' } });
      await origin.files.put('/root/mark', 'backup');
      await using copy = await origin.copy('m7', { to: there.client, mode: 'backup' });
      expect(await text(there.client, copy.name, '/root/mark')).toBe('backup');
      expect(await origin.backups.all()).toEqual([]);
      const volume = await (await here.client.storagePools.get('pool')).volumes.create({ name: 'v4', config: {} });
      await (await volume.copy({ to: there.client, mode: 'backup' })).delete();
      await volume.delete();
    });

    it('a copy that the other server refuses leaves no operation behind', async ({ skip }) => {
      const missing = await here.lacks('container_push');
      if (missing !== undefined) skip(missing);
      await prepare('relay');
      const source = { type: 'image', alias: 'tiny' };
      await using origin = await here.client.instances.create({ name: 'm8', source });
      await using taken = await there.client.instances.create({ name: 'm8', source });
      for (const mode of DIRECT) {
        await prepare(mode);
        await expect(origin.copy(taken.name, { to: there.client, mode })).rejects.toBeInstanceOf(APIException);
      }
      await until('the operations to end', async () => {
        const all = await Promise.all([here.client.operations.all(), there.client.operations.all()]);
        return all.every((byStatus) => (byStatus['running'] ?? []).length === 0);
      });
      expect((await taken.sync()).status).toBe('Stopped');
    });

    it('a mode that needs a listening server says so', async ({ skip }) => {
      const missing = await here.lacks('container_push');
      if (missing !== undefined) skip(missing);
      await prepare('relay');
      await using origin = await here.client.instances.create({ name: 'm9', source: { type: 'none' } });
      const copy = origin.copy('m10', { to: there.client, mode: 'push' });
      await expect(copy).rejects.toThrow('needs a server that listens on the network');
    });
  });
});

const [keelson, lxd] = servers;
const both = allOf(keelson?.probe ?? probeRoot(), lxd?.probe ?? probeRoot());

describe.skipIf(!both.ok)(named('migration between Keelson and LXD', both), () => {
  let ours: Fixture;
  let theirs: Fixture;
  beforeAll(async () => {
    if (keelson === undefined || lxd === undefined) throw new Error('two kinds');
    [ours, theirs] = await Promise.all([Fixture.start(keelson), Fixture.start(lxd)]);
    await Promise.all([listen(ours, true), listen(theirs, true)]);
  });
  afterAll(async () => {
    await Promise.all([ours?.[Symbol.asyncDispose](), theirs?.[Symbol.asyncDispose]()]);
  });

  it('there: refreshed, a snapshot alone, another project', async () =>
    expect(await refreshes(ours, theirs)).toEqual(['source', 'target']));

  it('and back', async () => expect(await refreshes(theirs, ours)).toEqual(['source', 'target']));
});
