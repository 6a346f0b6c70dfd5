import { describe, expect, test } from 'vitest';
import { bundlePlan } from './bundles.mjs';
import { findLeftovers } from './leftovers.mjs';
import { emptySummary, finalLine, skippedLines, slowestFiles, summarize } from './summary.mjs';

const file = (path, ok, ...states) => ({
  path,
  ms: 10,
  ok,
  tests: states.map((state, index) => ({
    name: `t${index}`,
    state,
    note: state === 'skipped' ? 'needs a disk' : undefined,
  })),
});

describe('summarize', () => {
  test('counts tests and keeps the reasons of skips', () => {
    const summary = summarize({ files: [file('a', true, 'passed', 'skipped'), file('b', false, 'failed')] }, 1);
    expect(summary).toMatchObject({ passed: 1, failed: 1, skipped: 1, code: 1 });
    expect(summary.skips).toEqual([{ name: 'a > t1', reason: 'needs a disk' }]);
  });

  test('counts a file that did not load and an error outside of tests as failures', () => {
    expect(summarize({ files: [file('a', false)], unhandled: ['boom'] }, 1).failed).toBe(2);
  });

  test('tells failures with their first reason, also of tests that passed in the end', () => {
    const failed = { name: 'breaks', state: 'failed', errors: ['no disk (a.ts:3)', 'still no disk'] };
    const flaky = { name: 'stumbles', state: 'passed', again: true, errors: ['late'] };
    const summary = summarize(
      { files: [{ path: 'a', ms: 1, ok: false, tests: [failed, flaky] }], unhandled: ['boom'] },
      1,
    );
    expect(summary.failures).toEqual(['a > breaks: no disk (a.ts:3)', 'outside of tests: boom']);
    expect(summary.again).toEqual(['a > stumbles: late']);
    expect(summarize({ files: [{ ...file('b', false), errors: ['no such module'] }] }, 1).failures).toEqual([
      'b > the file itself: no such module',
    ]);
  });

  test('a runner that failed or wrote nothing is a failure', () => {
    expect(summarize(undefined, 1).failed).toBe(1);
    expect(summarize({ files: [file('a', true, 'passed')] }, 1).failed).toBe(1);
  });
});

test('finalLine adds up suites and failed stages', () => {
  const one = { ...emptySummary(), passed: 3, skipped: 1 };
  expect(finalLine([one, { ...one, failed: 2 }], 1)).toBe('6 passed, 3 failed, 2 skipped');
});

test('skippedLines puts the tests of a suite that is not run into one line', () => {
  const skips = [
    { name: 'a > zfs (skipped: no module) > one', reason: '' },
    { name: 'a > zfs (skipped: no module) > deep > two', reason: '' },
    { name: 'a > other > three', reason: 'needs a disk' },
  ];
  expect(skippedLines([{ ...emptySummary(), skips }])).toEqual([
    'skipped: 2 tests of a > zfs (skipped: no module)',
    'skipped: a > other > three: needs a disk',
  ]);
});

test('slowestFiles sorts by time', () => {
  const summary = {
    ...emptySummary(),
    files: [
      { path: 'a', ms: 100 },
      { path: 'b', ms: 2500 },
    ],
  };
  expect(slowestFiles([summary], 1)).toEqual(['     2.5 s  b']);
});

test('findLeftovers sees mounts of tests and bridges, nothing else', () => {
  const mounts = 'x /tmp/keelson-a/pool ext4 rw 0 0\nx /tmp ext4 rw 0 0\nx /home ext4 rw 0 0\n';
  expect(findLeftovers(mounts, ['eth0', 'kt12'])).toEqual(['mount /tmp/keelson-a/pool', 'interface kt12']);
});

test('bundlePlan takes the main file and the workers of each program', () => {
  const sources = (folder) => [`${folder}/main.ts`, `${folder}/a/hash-worker.ts`, `${folder}/a/other.ts`];
  expect(bundlePlan(sources)[0]).toEqual({
    name: 'daemon',
    entries: ['packages/daemon/src/main.ts', 'packages/daemon/src/a/hash-worker.ts'],
    outbase: 'packages/daemon/src',
    outdir: 'packages/daemon/dist',
  });
});
