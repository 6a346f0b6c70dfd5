import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { command, named } from '@keelson/testkit';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Fixture, servers } from './servers.ts';
import { tidyAfterFailure } from './tidy.ts';

const example = (name: string): string => fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));
const kind = servers[0];

describe.skipIf(kind?.probe.ok !== true)(named('examples', kind?.probe ?? { ok: false, reason: 'no server' }), () => {
  let fixture: Fixture;
  let folder: string;
  beforeAll(async () => {
    if (kind === undefined) throw new Error('no server');
    fixture = await Fixture.start(kind);
    folder = mkdtempSync(join(tmpdir(), 'keelson-examples-'));
  });
  afterEach((context) => tidyAfterFailure(context, fixture.client, []));
  afterAll(async () => {
    await fixture?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const run = async (...args: readonly string[]): Promise<string> => {
    const env = { KEELSON_DIR: join(fixture.socket, '..'), KEELSON_EXAMPLE_IMAGE: 'tiny', NODE_OPTIONS: '' };
    return (await command(process.execPath, ['--conditions=source', ...args], { env, timeoutMs: 50_000 })).stdout;
  };
  const names = async (): Promise<string[]> => (await fixture.client.instances.all()).map(({ name }) => name);

  it('launch-and-exec', async () => {
    const output = await run(example('launch-and-exec.ts'), 'tiny');
    expect(output).toMatch(/is Running\nexit code 0:\nID=tiny[^]*apple\npear\nsort ended with 0/);
    expect(await names()).toEqual([]);
  });

  it('build-an-image', async () => {
    expect(await run(example('build-an-image.ts'), 'tiny', 'built')).toMatch(/^built is [0-9a-f]{12}, \d+ bytes/m);
    const image = await fixture.client.images.getByAlias('built');
    expect(image.properties['description']).toBe('tiny with a message');
    expect(await names()).toEqual([]);
  });

  it('back-up', async ({ skip }) => {
    const missing = await fixture.lacks('container_backup');
    if (missing !== undefined) skip(missing);
    await using _original = await fixture.client.instances.create({
      name: 'c1',
      source: { type: 'image', alias: 'tiny' },
    });
    const file = join(folder, 'c1.tar.gz');
    expect(await run(example('back-up.ts'), 'c1', file, 'c2')).toContain('c2 was made from it');
    expect([existsSync(file), (await names()).toSorted()]).toEqual([true, ['c1', 'c2']]);
    await (await fixture.client.instances.get('c2')).delete();
  });

  it('test-fixture', async () => {
    expect(await run('--test', '--test-reporter=tap', example('test-fixture.ts'))).toContain('# pass 2');
    expect(await names()).toEqual([]);
  });
});
