import type { Image, Operation } from '@keelson/api';
import { command, type ImageFiles, startDaemon, type TestDaemon, tinyImage } from '@keelson/testkit';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { form, upload } from './upload.ts';

describe('instances become images', () => {
  let daemon: TestDaemon;
  let tiny: ImageFiles;

  beforeAll(async () => {
    tiny = await tinyImage();
    daemon = await startDaemon();
    const { body, headers } = form(tiny.metadata, tiny.rootfs);
    const { metadata } = await upload(daemon, body, headers);
    await daemon.run('POST', '/1.0/images/aliases', { name: 'tiny', target: String(metadata?.['fingerprint']) });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'plain', driver: 'dir' });
    await init('first', 'tiny');
  });
  afterAll(() => daemon?.[Symbol.asyncDispose]());

  const init = (name: string, alias: string) =>
    daemon.run('POST', '/1.0/instances', {
      name,
      source: { type: 'image', alias },
      devices: { root: { type: 'disk', path: '/', pool: 'plain' } },
    });
  const publish = async (source: object, more: object = {}): Promise<string> => {
    const done = await daemon.run('POST', '/1.0/images', { source, ...more });
    return String(done?.metadata?.['fingerprint']);
  };
  const unpacked = (fingerprint: string): string =>
    join(daemon.stateDir, 'storage-pools/plain/images', fingerprint, 'rootfs');

  it.each(['', 'none', 'zstd', 'squashfs'])('a stopped container, compression "%s"', async (compression) => {
    const name = `p${compression}`;
    const fingerprint = await publish(
      { type: 'instance', name: 'first' },
      { properties: { os: 'Mine' }, public: true, compression_algorithm: compression },
    );
    const { body } = await daemon.request<Image>('GET', `/1.0/images/${fingerprint}`);
    expect(body.metadata).toMatchObject({
      type: 'container',
      architecture: 'x86_64',
      public: true,
      properties: { os: 'Mine', description: 'Tiny test image' },
    });
    await daemon.run('POST', '/1.0/images/aliases', { name, target: fingerprint });
    await init(`from-${name}`, name);
    // Guest ids, not those the container's files have on the host.
    expect(statSync(join(unpacked(fingerprint), 'bin/busybox')).uid).toBe(0);
    expect(statSync(join(unpacked(fingerprint), 'home/tester')).uid).toBe(1000);
    expect(readdirSync(unpacked(fingerprint)).toSorted()).toContain('sbin');
  });

  it('a snapshot keeps what the container has changed since', async () => {
    await daemon.run('POST', '/1.0/instances/first/snapshots', { name: 's0' });
    const lxc = (...args: string[]) => command('lxc', args, { env: { LXD_DIR: daemon.stateDir }, input: '' });
    const file = join(daemon.stateDir, 'note');
    writeFileSync(file, 'later\n');
    await lxc('file', 'push', file, 'first/root/note');
    const old = await publish({ type: 'snapshot', name: 'first/s0' }, { properties: { from: 'snapshot' } });
    const now = await publish({ type: 'instance', name: 'first' }, { properties: { from: 'instance' } });
    for (const [name, fingerprint] of [['old', old] as const, ['now', now] as const]) {
      await daemon.run('POST', '/1.0/images/aliases', { name, target: fingerprint });
      await init(`from-${name}`, name);
    }
    expect(readdirSync(join(unpacked(old), 'root'))).not.toContain('note');
    expect(readdirSync(join(unpacked(now), 'root'))).toContain('note');
  });

  it('a missing snapshot and a source without name are refused', async () => {
    const missing = await daemon.request('POST', '/1.0/images', { source: { type: 'snapshot', name: 'first/nope' } });
    expect(missing.status).toBe(404);
    const empty = await daemon.request<Operation>('POST', '/1.0/images', { source: { type: 'instance' } });
    expect([empty.status, empty.body.error]).toEqual([400, 'No source provided']);
  });
});
