import { command, type ImageFiles, startDaemon, type TestDaemon, tinyImage } from '@keelson/testkit';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

describe("LXD's own client", () => {
  let daemon: TestDaemon;
  let tiny: ImageFiles;
  let folder: string;

  beforeAll(async () => {
    tiny = await tinyImage();
    folder = mkdtempSync(join(tmpdir(), 'keelson-lxc-images-'));
    daemon = await startDaemon();
  });
  afterAll(async () => {
    await daemon?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const lxc = async (...args: string[]): Promise<string> =>
    (await command('lxc', args, { env: { LXD_DIR: daemon.stateDir, LXD_CONF: join(folder, 'conf') }, input: '' }))
      .stdout;
  const sha = (...paths: string[]): string => {
    const hash = createHash('sha256');
    for (const path of paths) hash.update(readFileSync(path));
    return hash.digest('hex');
  };

  it('imports, lists, shows, edits, exports and deletes a split image', async () => {
    const fingerprint = sha(tiny.metadata, tiny.rootfs);
    expect(await lxc('image', 'import', tiny.metadata, tiny.rootfs, '--alias', 'tiny')).toContain(fingerprint);
    expect(await lxc('image', 'list', '-c', 'lfpdtu', '--format', 'csv')).toMatch(
      new RegExp(`^tiny,${fingerprint.slice(0, 12)},no,Tiny test image,CONTAINER,`),
    );
    expect(await lxc('image', 'info', 'tiny')).toMatch(/Architecture: x86_64[^]*os: Tiny[^]*- tiny/);
    await lxc('image', 'set-property', 'tiny', 'colour', 'blue');
    expect((await lxc('image', 'get-property', 'tiny', 'colour')).trim()).toBe('blue');
    await lxc('image', 'unset-property', 'tiny', 'colour');
    expect(await lxc('image', 'show', 'tiny')).not.toContain('colour');
    const out = mkdtempSync(join(folder, 'out-'));
    await lxc('image', 'export', 'tiny', `${out}/`);
    const files = readdirSync(out).toSorted();
    expect(files).toEqual([`${fingerprint}.squashfs`, `meta-${fingerprint}.tar.xz`]);
    expect(sha(join(out, files[1] ?? ''), join(out, files[0] ?? ''))).toBe(fingerprint);
    await lxc('image', 'delete', 'tiny');
    expect((await lxc('image', 'list', '--format', 'csv')).trim()).toBe('');
  });

  it('imports and exports a unified image with properties', async () => {
    const fingerprint = sha(tiny.unified);
    await lxc('image', 'import', tiny.unified, '--alias', 'one', '--public', 'colour=green');
    expect(await lxc('image', 'show', 'one')).toMatch(/colour: green[^]*public: true/);
    const out = mkdtempSync(join(folder, 'out-'));
    await lxc('image', 'export', 'one', `${out}/`);
    expect(readdirSync(out)).toEqual([`${fingerprint}.tar.gz`]);
    expect(sha(join(out, `${fingerprint}.tar.gz`))).toBe(fingerprint);
    await lxc('image', 'alias', 'create', 'two', fingerprint);
    await lxc('image', 'alias', 'rename', 'two', 'deux');
    expect(await lxc('image', 'alias', 'list', '--format', 'csv')).toContain('deux,');
    await lxc('image', 'alias', 'delete', 'deux');
    await lxc('image', 'delete', 'one');
    await expect(lxc('image', 'info', 'one')).rejects.toThrow(/not found/i);
  });
});
