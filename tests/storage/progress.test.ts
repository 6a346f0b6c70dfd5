import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startDaemon, type TestDaemon } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;

/** What the operation of a copy tells while it runs; the last word stays in its record. */
describe('copies of storage', () => {
  let daemon: TestDaemon;

  beforeAll(async () => {
    daemon = await startDaemon();
    await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '2GiB' } });
    await daemon.run('POST', volumes('p'), { name: 'v' });
    const megabytes = randomBytes(1024 ** 2);
    for (let index = 0; index < 300; index++) {
      writeFileSync(join(daemon.stateDir, `storage-pools/p/custom/default_v/f${index}`), megabytes);
    }
  }, 120_000);
  afterAll(() => daemon?.[Symbol.asyncDispose]());

  const progressOf = async (method: string, path: string, body: object): Promise<Record<string, unknown>> => {
    const { body: answer } = await daemon.request(method, path, body);
    const { body: done } = await daemon.request<{ status: string; metadata: Record<string, unknown> | null }>(
      'GET',
      `${answer.operation}/wait?timeout=60`,
    );
    expect(done.metadata.status).toBe('Success');
    return done.metadata.metadata ?? {};
  };
  const source = { type: 'copy', pool: 'p', name: 'v' };

  it.each([
    ['a copy in one pool', 'POST', volumes('p'), { name: 'w', source }, 'fs', 'default_v'],
    ['a copy to another pool', 'POST', volumes('b'), { name: 'v', source }, 'fs', 'default_v'],
    ['a move to another pool', 'POST', `${volumes('b')}/v`, { name: 'x', pool: 'p' }, 'fs', 'default_v'],
    [
      'a backup',
      'POST',
      `${volumes('p')}/v/backups`,
      { name: 'k', compression_algorithm: 'none' },
      'create_backup',
      '',
    ],
  ] as const)('tell how far they are: %s', { timeout: 60_000 }, async (...[, method, path, body, stage, label]) => {
    const metadata = await progressOf(method, path, body);
    const text = label === '' ? '' : `${label}: `;
    expect(metadata[`${stage}_progress`]).toMatch(new RegExp(`^${text}[0-9.]+[kMG]?B( \\([0-9.]+[kMG]?B/s\\))?$`));
    expect(metadata['progress']).toMatchObject({ stage, processed: expect.stringMatching(/^[0-9]+$/) as string });
  });
});
