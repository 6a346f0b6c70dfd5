import type { Image } from '@keelson/api';
import { type ImageFiles, startDaemon, type TestDaemon, tinyImage } from '@keelson/testkit';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { form, upload } from './upload.ts';

const rounds = 10;

let daemon: TestDaemon;
let tiny: ImageFiles;
// A second try must not find what the first one left.
beforeEach(async () => {
  tiny = await tinyImage();
  daemon = await startDaemon();
}, 120_000);
afterEach(() => daemon?.[Symbol.asyncDispose](), 120_000);

it('a daemon killed at any moment of an import or a delete leaves neither files without record nor the other way', {
  timeout: 300_000,
}, async ({ signal }) => {
  const { body, headers } = form(tiny.metadata, tiny.rootfs);
  // How long an import takes here and now, so that the kills spread over all of it.
  const started = performance.now();
  expect((await upload(daemon, body, headers)).err).toBe('');
  const length = performance.now() - started;
  await removeAll();
  for (let round = 0; round < rounds; round++) {
    signal.throwIfAborted();
    const change = round % 2 === 0 ? upload(daemon, body, headers) : removeAll();
    const outcome = change.then(
      () => 'answered',
      () => 'cut off',
    );
    const moment = ((round + Math.random()) / rounds) * length;
    await sleep(moment);
    await daemon.kill();
    await outcome;
    await daemon.start();
    await checkConsistency(`after kill ${round} at ${Math.round(moment)} of ${Math.round(length)} ms`);
    if (round % 2 === 0) await upload(daemon, body, headers).catch(() => undefined);
  }
  await removeAll();
  expect((await upload(daemon, body, headers)).err).toBe('');
  expect(daemon.logs).not.toContain('the next start tries again');
});

async function removeAll(): Promise<void> {
  const { body } = await daemon.request<string[]>('GET', '/1.0/images');
  for (const url of body.metadata) await daemon.run('DELETE', url);
}

async function checkConsistency(when: string): Promise<void> {
  const { body } = await daemon.request<Image[]>('GET', '/1.0/images?recursion=1');
  const expected = body.metadata.flatMap(({ fingerprint }) => [
    fingerprint,
    `${fingerprint}.meta`,
    `${fingerprint}.rootfs`,
  ]);
  const images = readdirSync(join(daemon.stateDir, 'images')).toSorted();
  const scratch = readdirSync(join(daemon.stateDir, 'scratch'));
  expect({ when, images, scratch }).toEqual({ when, images: expected.toSorted(), scratch: [] });
}
