import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  frozen,
  type Head,
  headOver,
  imagesOf,
  layersOf,
  MANIFEST,
  overlayTree,
  type RootManifest,
  readManifest,
  withoutUpper,
} from './manifest.ts';

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keelson-manifest-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const read = async (head: object) => {
  await writeFile(join(folder, MANIFEST), JSON.stringify({ version: 1, head, snapshots: {} }));
  return readManifest(folder);
};

const upper = { id: 'u', base: 1000, size: 65_536 };
const low = { id: 'l', base: 0 };
const head: Head & { kind: 'overlay' } = { kind: 'overlay', image: 'img', layers: [low], upper };

describe('trees of a root', () => {
  it('freeze the upper as the topmost layer, with its ids', () => {
    expect(frozen(head)).toEqual({ kind: 'overlay', image: 'img', layers: [upper, low] });
    expect(withoutUpper(head)).toEqual({ kind: 'overlay', image: 'img', layers: [low] });
  });

  it('leave a plain folder as it is', () => {
    expect(frozen({ kind: 'plain', tree: 't' })).toEqual({ kind: 'plain', tree: 't' });
  });

  it('get a new upper without losing the image', () => {
    expect(headOver(overlayTree([low], 'img'), upper)).toEqual(head);
    expect(headOver(overlayTree([low], undefined), upper)).not.toHaveProperty('image');
  });
});

describe('what a manifest names', () => {
  const manifest: RootManifest = {
    version: 1,
    head,
    snapshots: {
      s0: { kind: 'overlay', image: 'old', layers: [low] },
      s1: { kind: 'plain', tree: 'p' },
    },
  };

  it('is every layer once, of the head and of all snapshots', () => {
    expect([...layersOf(manifest)].sort()).toEqual(['l', 'p', 'u']);
  });

  it('is every image', () => {
    expect(imagesOf(manifest)).toEqual(['img', 'old']);
  });
});

it('names of layers and images stay in the pool', async () => {
  const other = { id: '0123456789abcdef', base: 0 };
  expect(await read({ kind: 'plain', tree: other.id })).toMatchObject({ head: { tree: other.id } });
  for (const id of ['../../../etc', '..', '/etc', '', 7]) {
    await expect(read({ kind: 'plain', tree: id })).rejects.toMatchObject({ code: 'internal' });
    await expect(read({ kind: 'overlay', upper: other, layers: [{ id, base: 0 }] })).rejects.toMatchObject({
      code: 'internal',
    });
    await expect(read({ kind: 'overlay', upper: other, layers: [], image: id })).rejects.toMatchObject({
      code: 'internal',
    });
  }
});
