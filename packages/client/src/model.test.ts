import * as api from '@keelson/api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StaleObject } from './errors.ts';
import * as client from './index.ts';
import { error, TinyServer } from './testing/tiny-server.ts';

const POOL = '/1.0/storage-pools/p1';
const record = { name: 'p1', driver: 'dir', description: '', config: { source: '/x' }, used_by: [], status: 'Created' };

describe('models', () => {
  let tiny: TinyServer;
  beforeEach(async () => {
    tiny = await TinyServer.start();
    tiny.reply(`GET ${POOL}`, { metadata: record, etag: 'first' });
    tiny.reply(`PUT ${POOL}`, { metadata: null });
    tiny.reply(`PATCH ${POOL}`, { metadata: null });
    tiny.reply(`DELETE ${POOL}`, { metadata: null });
    tiny.reply('GET /1.0/storage-pools', { metadata: [POOL] });
    tiny.reply('GET /1.0/storage-pools?recursion=1', { metadata: [record] });
  });
  afterEach(() => tiny[Symbol.asyncDispose]());
  const changes = (): string[] => tiny.asked.filter((one) => !one.startsWith('GET'));

  it('save sends nothing when nothing changed', async () => {
    const pool = await tiny.client().storagePools.get('p1');
    expect([pool.description, pool.config['source']]).toEqual(['', '/x']);
    await pool.save();
    expect(changes()).toEqual([]);
  });

  it('save sends everything writable under the ETag, also what was changed in place', async () => {
    const pool = await tiny.client().storagePools.get('p1');
    pool.config['user.a'] = '1';
    await pool.save();
    const sent = tiny.requests.find(({ method }) => method === 'PUT');
    expect(sent?.json).toEqual({ description: '', config: { source: '/x', 'user.a': '1' } });
    expect(sent?.headers['if-match']).toBe('first');
    expect(pool.changed).toBe(false);
  });

  it('a change undone before save is no change', async () => {
    const pool = await tiny.client().storagePools.get('p1');
    pool.config['user.a'] = '1';
    delete pool.config['user.a'];
    await pool.save();
    expect(changes()).toEqual([]);
  });

  it('a change that was refused is still a change', async () => {
    tiny.reply(`PUT ${POOL}`, error(400, 'Invalid option'));
    const pool = await tiny.client().storagePools.get('p1');
    pool.description = 'new';
    await expect(pool.save()).rejects.toMatchObject({ name: 'APIException', status: 400 });
    expect([pool.changed, pool.description]).toEqual([true, 'new']);
  });

  it('put and patch read again, rawPut and rawPatch do not', async () => {
    const pool = await tiny.client().storagePools.get('p1');
    tiny.requests.length = 0;
    await pool.rawPut({ description: 'x' });
    await pool.rawPatch({ description: 'x' });
    expect(tiny.asked).toEqual([`PUT ${POOL}`, `PATCH ${POOL}`]);
    await pool.put({ description: 'x' });
    await pool.patch({ description: 'x' });
    expect(tiny.asked.slice(2)).toEqual([`PUT ${POOL}`, `GET ${POOL}`, `PATCH ${POOL}`, `GET ${POOL}`]);
  });

  it('a change that goes on in the background is not read back unless it is waited for', async () => {
    tiny.reply(`PUT ${POOL}`, { metadata: {}, operation: '/1.0/operations/o1' });
    tiny.reply('GET /1.0/operations/o1/wait?timeout=60', { metadata: { id: 'o1', status_code: 200 } });
    const pool = await tiny.client().storagePools.get('p1');
    tiny.requests.length = 0;
    await pool.put({ description: 'x' });
    expect(tiny.asked).toEqual([`PUT ${POOL}`]);
    await pool.put({ description: 'x' }, { wait: true });
    expect(tiny.asked.slice(1)).toEqual([`PUT ${POOL}`, 'GET /1.0/operations/o1/wait?timeout=60', `GET ${POOL}`]);
  });

  it('a deleted object is stale', async () => {
    const pool = await tiny.client().storagePools.get('p1');
    await pool.delete();
    expect(() => pool.name).toThrow(StaleObject);
    expect(() => pool.path).toThrow(StaleObject);
    await expect(pool.sync()).rejects.toBeInstanceOf(StaleObject);
    await expect(pool.save()).rejects.toBeInstanceOf(StaleObject);
    await expect(pool.delete()).rejects.toBeInstanceOf(StaleObject);
  });

  it('a sparse object fetches once, however many attributes are asked for', async () => {
    const [pool] = await tiny.client().storagePools.all();
    expect(pool?.name).toBe('p1');
    tiny.requests.length = 0;
    const values = await Promise.all([pool?.driver, pool?.config, pool?.status]);
    expect(values).toEqual(['dir', { source: '/x' }, 'Created']);
    expect(tiny.asked).toEqual([`GET ${POOL}`]);
    const full = await pool?.sync();
    expect(full?.driver).toBe('dir');
  });

  it('a sparse object asks again after a failed fetch', async () => {
    const [pool] = await tiny.client().storagePools.all();
    tiny.reply(`GET ${POOL}`, error(500, 'Busy'));
    await expect(pool?.driver).rejects.toMatchObject({ status: 500 });
    tiny.reply(`GET ${POOL}`, { metadata: record });
    expect(await pool?.driver).toBe('dir');
  });

  it('recursion 1 fetches everything at once', async () => {
    const [pool] = await tiny.client().storagePools.all({ recursion: 1 });
    expect([pool?.driver, pool?.populated]).toEqual(['dir', true]);
    expect(tiny.asked).toEqual(['GET /1.0', 'GET /1.0/storage-pools?recursion=1']);
  });

  it('an object of another project stays there', async () => {
    const profile = { name: 'default', config: {}, devices: {}, description: '' };
    tiny.reply('GET /1.0/profiles?all-projects=true', { metadata: ['/1.0/profiles/default?project=blue'] });
    tiny.reply('GET /1.0/profiles/default?project=blue', { metadata: profile });
    const [sparse] = await tiny.client().profiles.all({ allProjects: true });
    expect(await sparse?.config).toEqual({});
  });

  it.each([
    [client.StoragePool, api.StoragePool],
    [client.StorageVolume, api.StorageVolume],
    [client.Instance, api.Instance],
    [client.Snapshot, api.InstanceSnapshot],
    [client.Image, api.Image],
    [client.Network, api.Network],
    [client.Profile, api.Profile],
    [client.Project, api.Project],
    [client.Certificate, api.Certificate],
    [client.Cluster, api.Cluster],
    [client.ClusterMember, api.ClusterMember],
  ])('%o has an accessor for every field of its record', (model, schema) => {
    const { prototype }: { prototype: object } = model;
    // `managed` is true for every pool; `restore` is only ever sent.
    const others = ['managed', 'restore'];
    const missing = Object.keys(schema.properties).filter((field) => !Object.hasOwn(prototype, field));
    expect(missing.filter((field) => !others.includes(field))).toEqual([]);
  });

  it('is JSON like its record', async () => {
    const pool = await tiny.client().storagePools.get('p1');
    expect(JSON.parse(JSON.stringify(pool))).toEqual(record);
  });
});
