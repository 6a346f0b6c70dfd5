import { describe, expect, it } from 'vitest';
import {
  frozen,
  type Head,
  headOver,
  imagesOf,
  layersOf,
  overlayTree,
  type RootManifest,
  withoutUpper,
} from './manifest.ts';

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
