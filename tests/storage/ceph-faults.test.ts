import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Operation } from '@keelson/api';
import { type CephCluster, command, named, startCeph, type TestDaemon, tinyImage, until } from '@keelson/testkit';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { followCommands, momentsOf, randomFrom } from './ceph-kills.ts';
import { CephWorld } from './ceph-world.ts';
import { probeRbd } from './rbd.ts';

const probe = await probeRbd();
/** More rounds than usual, and the same once more: by KEELSON_TEST_ROUNDS and KEELSON_TEST_SEED. */
const ROUNDS = Number(process.env['KEELSON_TEST_ROUNDS'] ?? 5);
const SEED = Number(process.env['KEELSON_TEST_SEED'] ?? Date.now() % 1_000_000);
const MIB = 1024 ** 2;
const SIZE = 8 * MIB;
const VOLUMES = '/1.0/storage-pools/rbd/volumes/custom';
const IMAGES = '/1.0/storage-pools/rbd/volumes/image';

describe.skipIf(!probe.ok)(named('faults around a ceph pool', probe), { timeout: 240_000 }, () => {
  let cluster: CephCluster;
  let world: CephWorld;
  let daemon: TestDaemon;
  /** Name of the OSD pool. */
  let osd = '';
  let tries = 0;
  /** Fingerprint of an image that instances are made of. */
  let image = '';

  beforeAll(async () => {
    cluster = await startCeph();
  }, 180_000);
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
  }, 120_000);
  // A daemon and an OSD pool of its own for every test, and for every try of one: nothing of another is in its way.
  beforeEach(async () => {
    world = await CephWorld.open({ cluster });
    ({ daemon } = world);
    osd = `rbd${tries++}`;
    const config = { 'ceph.osd.pool_name': osd, 'ceph.osd.pg_num': '4', 'volume.size': '32MiB' };
    await daemon.run('POST', '/1.0/storage-pools', { name: 'rbd', driver: 'ceph', config });
    return () => world[Symbol.asyncDispose]();
  }, 180_000);

  const list = async (url: string): Promise<string[]> => {
    const { status, body } = await daemon.request<string[]>('GET', url);
    if (status !== 200) throw new Error(`GET ${url}: ${status} ${body.error}`);
    return body.metadata;
  };
  const names = async (url: string) =>
    (await list(url))
      .filter((one) => url.endsWith('snapshots') || !one.includes('/snapshots/'))
      .map((one) => one.split('/').at(-1) ?? '')
      .sort();
  const rbd = async (...args: string[]) => JSON.parse(await cluster.rbd(...args, '--format', 'json'));
  const imagesOf = async (): Promise<string[]> => rbd('ls', osd);

  /** Writes `word` over all of an image that nobody has mapped. */
  const fill = async (image: string, word: string): Promise<void> => {
    const number = (value: number): Buffer => {
      const bytes = Buffer.alloc(8);
      bytes.writeBigUInt64LE(BigInt(value));
      return bytes;
    };
    const head = ['rbd diff v1\ns', number(SIZE), 'w', number(0), number(SIZE)].map((part) => Buffer.from(part));
    const file = join(daemon.stateDir, 'fill');
    writeFileSync(file, Buffer.concat([...head, Buffer.alloc(SIZE, word), Buffer.from('e')]));
    await cluster.rbd('import-diff', '--no-progress', file, `${osd}/${image}`);
  };
  /** What an image holds if it holds nothing else. */
  const wordIn = async (state: string): Promise<string> => {
    const script = 'rbd --conf "$0" export --no-progress "$1" - | fold -w 4 | sort -u | head -c 64';
    return (await command('sh', ['-c', script, cluster.conf, `${osd}/${state}`])).stdout.trim();
  };

  const changeVolumes = async (): Promise<void> => {
    const source = { type: 'copy', pool: 'rbd', name: 'v' };
    await daemon.run('POST', VOLUMES, { name: 'v', content_type: 'block', config: { size: String(SIZE) } });
    await fill('custom_default_v.block', 'old ');
    await daemon.run('POST', `${VOLUMES}/v/snapshots`, { name: 's0' });
    await fill('custom_default_v.block', 'new ');
    await daemon.run('POST', VOLUMES, { name: 'deep', source });
    await daemon.run('POST', VOLUMES, { name: 'w', source: { ...source, volume_only: true } });
    await daemon.run('PUT', `${VOLUMES}/deep`, { restore: 's0' });
    await daemon.run('POST', `${VOLUMES}/w`, { name: 'y' });
    await daemon.run('POST', `${VOLUMES}/deep/snapshots/s0`, { name: 's1' });
    await daemon.run('DELETE', `${VOLUMES}/v`);
    await daemon.run('DELETE', `${VOLUMES}/y`);
  };
  const changeRoots = async (): Promise<void> => {
    const devices = { root: { type: 'disk', path: '/', pool: 'rbd' } };
    await daemon.run('POST', '/1.0/instances', { name: 'c', source: { type: 'none' }, devices, profiles: [] });
    await daemon.run('POST', '/1.0/instances/c/snapshots', { name: 's0' });
    await daemon.run('POST', '/1.0/instances', { name: 'd', source: { type: 'copy', source: 'c' } });
    await daemon.run('PUT', '/1.0/instances/c', { restore: 's0' });
    await daemon.run('POST', '/1.0/instances/c', { name: 'e' });
    await daemon.run('DELETE', '/1.0/instances/e/snapshots/s0');
    await daemon.run('DELETE', '/1.0/instances/d');
    await daemon.run('DELETE', '/1.0/instances/e');
  };
  const changeImages = async (): Promise<void> => {
    const devices = { root: { type: 'disk', path: '/', pool: 'rbd' } };
    const source = { type: 'image', fingerprint: image };
    await daemon.run('POST', '/1.0/instances', { name: 'i', source, devices, profiles: [] });
    await daemon.run('DELETE', `/1.0/storage-pools/rbd/volumes/image/${image}`);
    await daemon.run('DELETE', '/1.0/instances/i');
  };
  const change = () => Promise.all([changeVolumes(), changeRoots(), changeImages()]);
  const clean = async (): Promise<void> => {
    for (const url of await list('/1.0/instances')) await daemon.run('DELETE', url);
    for (const name of await names(VOLUMES)) await daemon.run('DELETE', `${VOLUMES}/${name}`);
    for (const url of await list(IMAGES)) await daemon.run('DELETE', url);
  };
  const staged = () => readdirSync(join(daemon.stateDir, 'storage-pools/rbd/staging'));
  /** The cluster believes for half a minute that a client which was killed uses its image: what was half made goes then. */
  const settled = async (): Promise<boolean> =>
    staged().length === 0 && !(await imagesOf()).some((name) => /^(?:new|view)_/.test(name));

  /** Records and images tell the same story, every image is one whole state, and nothing is left of what was cut off. */
  const check = async (at: string): Promise<void> => {
    const volumes = await names(VOLUMES);
    await until('what was half made', settled, { timeoutMs: 90_000, intervalMs: 200 }).catch(() => undefined);
    expect(staged(), at).toEqual([]);
    const instances = await names('/1.0/instances');
    const wanted = [
      ...volumes.map((name) => `custom_default_${name}.block`),
      ...instances.map((name) => `container_${name}`),
      ...(await names(IMAGES)).map((fingerprint) => `image_${fingerprint}_ext4`),
    ];
    const images = await imagesOf();
    const zombies = images.filter((name) => name.startsWith('zombie_'));
    const others = images.filter((name) => !zombies.includes(name));
    expect(others.sort(), `images ${at}`).toEqual([...wanted, `lxd_${osd}`].sort());
    const stands = new Set<string>();
    for (const image of images) {
      const { parent } = await rbd('info', `${osd}/${image}`);
      if (parent !== undefined) stands.add(parent.image).add(`${parent.image}@${parent.snapshot}`);
    }
    expect(
      zombies.filter((name) => !stands.has(name)),
      `zombies ${at}`,
    ).toEqual([]);
    for (const image of others) {
      const snapshots: { name: string }[] = await rbd('snap', 'ls', `${osd}/${image}`);
      const users = snapshots.flatMap(({ name }) => (name.startsWith('snapshot_') ? [name.slice(9)] : []));
      const own = snapshots.flatMap(({ name }) => (name.startsWith('snapshot_') ? [] : [name]));
      const kept = image.startsWith('image_') ? ['readonly'] : own.filter((name) => stands.has(`${image}@${name}`));
      expect(own, `${image} ${at}`).toEqual(kept);
      const [, name = ''] = /^(?:container|custom_default)_([^.]+)/.exec(image) ?? [];
      if (name === '') continue;
      const url = image.startsWith('container') ? `/1.0/instances/${name}` : `${VOLUMES}/${name}`;
      expect(users.sort(), `snapshots of ${image} ${at}`).toEqual(await names(`${url}/snapshots`));
      if (!image.startsWith('custom') || name === 'v') continue;
      expect(['old', 'new'], `${image} ${at}`).toContain(await wordIn(image));
      for (const user of users) expect(await wordIn(`${image}@snapshot_${user}`), `${image}@${user} ${at}`).toBe('old');
    }
  };

  it(`kill -9 leaves whole things only, ${ROUNDS} times`, { timeout: 120_000 + ROUNDS * 240_000 }, async () => {
    const { metadata, rootfs } = await tinyImage();
    await world.ok('image', 'import', metadata, rootfs);
    [image = ''] = await names('/1.0/images');
    const changed = change();
    const { count } = await followCommands(daemon.pid, changed);
    await changed;
    await check('after the first');
    await clean();
    for (const [round, moment] of momentsOf(count, ROUNDS, randomFrom(SEED)).entries()) {
      const cut = Promise.allSettled([changeVolumes(), changeRoots(), changeImages()]);
      const { last } = await followCommands(daemon.pid, cut, moment);
      await daemon.kill();
      await cut;
      await daemon.start();
      const at = `after a kill when command ${moment.command} of ${count} ${moment.when}: "${last}"`;
      await check(`${at} (round ${round + 1} of KEELSON_TEST_SEED=${SEED})`);
      await clean();
    }
    expect(await imagesOf()).toEqual([`lxd_${osd}`]);
    await change();
    await check('at the end');
    await clean();
    const { mounts, loops, processes } = await daemon.leftovers();
    expect([mounts, loops, [...processes.values()]]).toEqual([[], [], []]);
  });

  it('a cluster that stops answering fails what is asked, not the daemon', { timeout: 300_000 }, async () => {
    const start = async (method: string, path: string, body?: object) =>
      (await daemon.request<Operation>(method, path, body)).body.operation ?? '';
    const ended = async (operation: string) =>
      (await daemon.request<Operation>('GET', `${operation}/wait?timeout=240`)).body.metadata;
    await daemon.run('POST', VOLUMES, { name: 'v', content_type: 'block', config: { size: String(SIZE) } });
    await fill('custom_default_v.block', 'old ');
    await daemon.run('POST', `${VOLUMES}/v/snapshots`, { name: 's0' });
    cluster.freeze();
    onTestFinished(() => cluster.thaw());
    const snapshot = await start('POST', `${VOLUMES}/v/snapshots`, { name: 's1' });
    const copy = await start('POST', VOLUMES, { name: 'w', source: { type: 'copy', pool: 'rbd', name: 'v' } });
    const began = performance.now();
    expect((await daemon.request('GET', `${VOLUMES}?recursion=1`)).status).toBe(200);
    expect(performance.now() - began).toBeLessThan(5000);
    for (const operation of [snapshot, copy])
      expect(await ended(operation)).toMatchObject({
        status_code: 400,
        err: expect.stringContaining('does not answer'),
      });
    cluster.thaw();
    // What was asked of the cluster may be done once it answers again.
    await until('the cluster', async () => (await imagesOf()).length > 0, { timeoutMs: 60_000 });
    await daemon.run('POST', `${VOLUMES}/v/snapshots`, { name: 's1' });
    await daemon.run('POST', VOLUMES, { name: 'w', source: { type: 'copy', pool: 'rbd', name: 'v' } });
    await check('once it answers again');
    await clean();
  });
});
