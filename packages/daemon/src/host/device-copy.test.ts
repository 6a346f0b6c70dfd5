import { expect, it } from 'vitest';
import { differences } from './device-copy.ts';

const BLOCK = 64 * 1024;

it.each([
  ['nothing', [], []],
  ['the first block', [0], [[0, BLOCK]]],
  ['neighbours as one run', [1, 2], [[BLOCK, 3 * BLOCK]]],
  [
    'the short last block',
    [0, 4],
    [
      [0, BLOCK],
      [4 * BLOCK, 4 * BLOCK + 10],
    ],
  ],
] as const)('finds what differs: %s', (_name, blocks, runs) => {
  const there = Buffer.alloc(4 * BLOCK + 10);
  const wanted = Buffer.from(there);
  for (const block of blocks) wanted[block * BLOCK + 5] = 1;
  expect(differences(wanted, there)).toEqual(runs);
});
