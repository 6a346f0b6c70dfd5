import type { Image, Operation } from '@keelson/api';
import { command, debianImage, type ImageFiles, startDaemon, type TestDaemon, tinyImage } from '@keelson/testkit';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { form, upload } from './upload.ts';

const sha = (...paths: string[]): string => {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(readFileSync(path));
  return hash.digest('hex');
};

describe('images come in and go out again', () => {
  let daemon: TestDaemon;
  let tiny: ImageFiles;
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-images-'));
    tiny = await tinyImage();
    daemon = await startDaemon();
  });
  afterAll(async () => {
    await daemon?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const remove = (fingerprint: string) => daemon.run('DELETE', `/1.0/images/${fingerprint}`);
  const exportTo = async (fingerprint: string, name: string): Promise<string> => {
    const path = join(folder, name);
    const url = `http://x/1.0/images/${fingerprint}/export`;
    await command('curl', ['-sf', '--unix-socket', daemon.socket, '-o', path, url]);
    return path;
  };

  it('a split squashfs image, whose files come back byte for byte', async () => {
    const { body, headers } = form(tiny.metadata, tiny.rootfs);
    const done = await upload(daemon, body, headers);
    const fingerprint = sha(tiny.metadata, tiny.rootfs);
    expect(done).toMatchObject({ err: '', metadata: { fingerprint } });
    const exported = readFileSync(await exportTo(fingerprint, 'split'));
    for (const part of [tiny.metadata, tiny.rootfs]) expect(exported.includes(readFileSync(part))).toBe(true);
    await remove(fingerprint);
  });

  it.each(['none', 'gzip', 'xz', 'zstd', 'bzip2'])('a unified tar compressed with %s', async (how) => {
    const plain = join(folder, `unified-${how}`);
    await command('sh', ['-c', 'gzip -dc "$1" > "$2"', 'sh', tiny.unified, plain]);
    if (how !== 'none') await command('sh', ['-c', '"$1" -c "$2" > "$2.c" && mv "$2.c" "$2"', 'sh', how, plain]);
    const done = await upload(daemon, readFileSync(plain), { 'X-LXD-filename': 'image' });
    expect(done).toMatchObject({ err: '', metadata: { fingerprint: sha(plain), size: String(statSync(plain).size) } });
    const exported = await exportTo(sha(plain), `exported-${how}`);
    expect(sha(exported)).toBe(sha(plain));
    await remove(sha(plain));
  });

  it('a Debian in little more than the time of its upload', async () => {
    const debian = await debianImage();
    const { body, headers } = form(debian.metadata, debian.rootfs);
    const octets = { 'Content-Type': 'application/octet-stream', ...headers };
    const asked = performance.now();
    const started = await daemon.request<Operation>('POST', '/1.0/images', body, { headers: octets });
    const before = performance.now();
    const done = await daemon.request<Operation>('GET', `${started.body.operation}/wait`);
    const took = performance.now() - before;
    expect(done.body.metadata.err).toBe('');
    // Not so when it is unpacked: that takes many times as long as to read it.
    expect(took).toBeLessThan(5000 + 5 * (before - asked));
    const { body: shown } = await daemon.request<Image[]>('GET', '/1.0/images?recursion=1');
    expect(shown.metadata).toMatchObject([
      { properties: { os: 'Debian' }, size: body.length - overhead(body, debian) },
    ]);
    await remove(sha(debian.metadata, debian.rootfs));
  });
});

/** Bytes of the form around the two files. */
function overhead(body: Uint8Array, { metadata, rootfs }: ImageFiles): number {
  return body.length - statSync(metadata).size - statSync(rootfs).size;
}
