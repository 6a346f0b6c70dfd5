import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { MANIFEST, readManifest } from './manifest.ts';

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keelson-manifest-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const read = async (head: object) => {
  await writeFile(join(folder, MANIFEST), JSON.stringify({ version: 1, head, snapshots: {} }));
  return readManifest(folder);
};

test('names of layers and images stay in the pool', async () => {
  const upper = { id: '0123456789abcdef', base: 0 };
  expect(await read({ kind: 'plain', tree: upper.id })).toMatchObject({ head: { tree: upper.id } });
  for (const id of ['../../../etc', '..', '/etc', '', 7]) {
    await expect(read({ kind: 'plain', tree: id })).rejects.toMatchObject({ code: 'internal' });
    await expect(read({ kind: 'overlay', upper, layers: [{ id, base: 0 }] })).rejects.toMatchObject({
      code: 'internal',
    });
    await expect(read({ kind: 'overlay', upper, layers: [], image: id })).rejects.toMatchObject({ code: 'internal' });
  }
});
