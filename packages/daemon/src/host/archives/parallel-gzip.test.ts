import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { run } from '../run.ts';
import { parallelGzip } from './parallel-gzip.ts';

const squeezed = (content: readonly Buffer[], threads?: number): Promise<Buffer> =>
  buffer(Readable.from(content).pipe(parallelGzip(threads)));

it.each([0, 1, 1024 ** 2, 5 * 1024 ** 2 + 7])('compresses %d bytes, and they come back in order', async (size) => {
  const content = randomBytes(size);
  const chunks: Buffer[] = [];
  for (let at = 0; at < size; at += 65_536) chunks.push(content.subarray(at, at + 65_536));
  for (const threads of [1, 3]) expect(gunzipSync(await squeezed(chunks, threads)).equals(content)).toBe(true);
});

it('is read by gzip itself', async () => {
  const archive = await squeezed([Buffer.alloc(3 * 1024 ** 2, 'abc')]);
  expect(archive.length).toBeLessThan(20_000);
  const { stdout } = await run('sh', ['-c', 'gzip -dc | wc -c'], { input: archive });
  expect(stdout.trim()).toBe(String(3 * 1024 ** 2));
});
