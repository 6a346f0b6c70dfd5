import { execFileSync } from 'node:child_process';
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FolderGate } from '../../packages/daemon/src/core/folder-gate.ts';
import { makeTar, type TestEntry } from '../../packages/daemon/src/host/archives/hostile.test-data.ts';
import type { ReceivedBackup } from '../../packages/daemon/src/host/archives/received-backup.ts';
import { VolumeArchives } from '../../packages/daemon/src/host/archives/volume-archive.ts';

const index: TestEntry = { name: 'backup/index.yaml', text: 'name: v\n' };
const volume: TestEntry = { name: 'backup/volume/', type: 'directory' };
const never = new AbortController().signal;

describe('backups from anywhere', { timeout: 300_000 }, () => {
  let folder: string;
  let outside: string;
  let archives: VolumeArchives;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-hostile-'));
    outside = join(folder, 'outside');
    mkdirSync(outside);
    writeFileSync(join(outside, 'file'), 'precious', { mode: 0o600 });
    archives = new VolumeArchives(join(folder, 'incoming'), new FolderGate());
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** What must not change: names, content, owners, modes and links of what lies outside. */
  const state = (): unknown =>
    [outside, join(outside, 'file')].map((path) => {
      const { mode, uid, gid, nlink, mtimeMs, ctimeMs } = lstatSync(path);
      return [path, mode, uid, gid, nlink, mtimeMs, ctimeMs];
    });
  const receive = async (bytes: Buffer): Promise<ReceivedBackup | Error> =>
    archives
      .receive(
        (async function* () {
          yield bytes;
        })(),
        never,
      )
      .catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
  /** Everything the importer does with a volume; it may refuse, with a bad request. */
  const take = async (bytes: Buffer): Promise<'taken' | 'refused'> => {
    const received = await receive(bytes);
    if (received instanceof Error) {
      expect(received).toMatchObject({ code: 'bad-request' });
      return 'refused';
    }
    await using backup = received;
    const target = mkdtempSync(join(folder, 'target-'));
    try {
      await backup.index();
      await backup.text('backup/volume.yaml');
      await backup.extract('backup/volume', target);
      return 'taken';
    } catch (error) {
      expect(error).toMatchObject({ code: 'bad-request' });
      return 'refused';
    } finally {
      rmSync(target, { recursive: true, force: true });
    }
  };

  it('no order of entries writes outside of where it belongs', async () => {
    const before = state();
    const name = fc.constantFrom('a', 'a/file', 'a/b', 'a/b/file', 'b', 'b/file', './a', 'a/./file', '../a', 'c');
    const link = fc.constantFrom(outside, '/', '..', '../../..', 'a', 'b', '.', `${outside}/file`);
    const hard = fc.constantFrom('backup/volume/a', 'backup/volume/a/file', 'backup/volume/b', `${outside}/file`, 'a');
    const entry = fc.oneof(
      name.map((one): TestEntry => ({ name: `backup/volume/${one}`, text: 'overwritten' })),
      name.map((one): TestEntry => ({ name: `backup/volume/${one}/`, type: 'directory' })),
      fc.tuple(name, link).map(([one, to]): TestEntry => ({ name: `backup/volume/${one}`, type: 'symlink', link: to })),
      fc.tuple(name, hard).map(([one, to]): TestEntry => ({ name: `backup/volume/${one}`, type: 'link', link: to })),
      fc.constantFrom<TestEntry>(
        { name: 'backup/volume', type: 'symlink', link: outside },
        { name: 'backup', type: 'symlink', link: outside },
        { name: outside, text: 'overwritten' },
        { name: 'backup/volume/fifo', type: 'fifo' },
        { name: 'backup/volume/disk', type: 'block-device', device: [8, 0] },
        { name: 'backup/volume/null', type: 'character-device', device: [1, 3] },
      ),
    );
    const ends = { taken: 0, refused: 0 };
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { minLength: 1, maxLength: 5 }), async (entries) => {
        ends[await take(await makeTar([index, volume, ...entries]))] += 1;
        expect(state()).toEqual(before);
        expect(readdirSync(outside)).toEqual(['file']);
        expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('precious');
      }),
      { numRuns: 80 },
    );
    expect(ends.taken).toBeGreaterThan(5);
    expect(ends.refused).toBeGreaterThan(5);
    expect(readdirSync(join(folder, 'incoming'))).toEqual([]);
  });

  it('a damaged one is taken or refused, and nothing stays', async () => {
    const whole = await makeTar([
      index,
      volume,
      { name: 'backup/volume/file', text: 'x'.repeat(3000) },
      { name: 'backup/volume/link', type: 'symlink', link: 'file' },
      { name: 'backup/volume/hard', type: 'link', link: 'backup/volume/file' },
    ]);
    expect(await take(whole)).toBe('taken');
    const flips = fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(flips, fc.integer({ min: 0, max: whole.length }), async (changes, keep) => {
        const damaged = Buffer.from(whole.subarray(0, keep));
        for (const [position, value] of changes) if (position < keep) damaged[position] = value;
        await take(damaged);
      }),
      { numRuns: 40 },
    );
    const packed = execFileSync('gzip', ['-c'], { input: whole });
    expect(await take(packed)).toBe('taken');
    for (const length of [0, 1, 20, packed.length >> 1, packed.length - 1])
      expect(await take(packed.subarray(0, length)), `${length} bytes`).toBe('refused');
    expect(readdirSync(join(folder, 'incoming'))).toEqual([]);
  });

  it.each<[what: string, entries: readonly TestEntry[], words: RegExp]>([
    ['two spellings of a path', [{ name: 'backup/volume/./file', text: 'x' }], /outside the backup/],
    [
      'a hard link through a link',
      [
        { name: 'backup/volume/l', type: 'symlink', link: '/etc' },
        { name: 'backup/volume/h', type: 'link', link: 'backup/volume/l/shadow' },
      ],
      /links to what lies behind a link/,
    ],
    [
      'what lies behind a hard link to a link',
      [
        { name: 'backup/volume/l', type: 'symlink', link: '/etc' },
        { name: 'backup/volume/h', type: 'link', link: 'backup/volume/l' },
        { name: 'backup/volume/h/cron', text: 'x' },
      ],
      /lies behind a link/,
    ],
    ['an index of many bytes', [{ name: 'backup/index.yaml', text: 'x'.repeat(2 ** 20 + 1) }], /is not a small file/],
    [
      'a name of many bytes',
      [{ name: `backup/volume/${'x/'.repeat(40_000)}x`, text: 'x' }],
      /name is too long|damaged/,
    ],
    ['a file of eight gigabytes that ends', [{ name: 'backup/volume/f', claimedSize: 8 * 1024 ** 3 }], /ends early/],
  ])('%s is refused', async (_what, entries, words) => {
    const found = await receive(await makeTar([index, volume, ...entries]));
    expect(found).toMatchObject({ code: 'bad-request' });
    expect((found as Error).message).toMatch(words);
  });

  it('long paths and many links do not hold up the daemon', async () => {
    const deep = 'd/'.repeat(2000);
    const entries = Array.from({ length: 100 }, (_, at): TestEntry[] => [
      { name: `backup/volume/${deep}${at}`, text: '' },
      { name: `backup/volume/${deep}l${at}`, type: 'symlink', link: 'x' },
    ]).flat();
    const bytes = await makeTar([index, volume, ...entries]);
    // Time of the processor, not of the clock: others may have it meanwhile.
    let last = process.cpuUsage();
    let longest = 0;
    const timer = setInterval(() => {
      const { user, system } = process.cpuUsage(last);
      longest = Math.max(longest, (user + system) / 1000);
      last = process.cpuUsage();
    }, 1);
    const received = await receive(bytes);
    clearInterval(timer);
    expect(received).not.toBeInstanceOf(Error);
    await (received as ReceivedBackup)[Symbol.asyncDispose]();
    expect(longest).toBeLessThan(2000);
  });

  it('thousands of small files are taken in time', async () => {
    const many = Array.from({ length: 5000 }, (_, at): TestEntry => ({ name: `backup/volume/${at}`, text: 'x' }));
    expect(await take(await makeTar([index, volume, ...many]))).toBe('taken');
  });
});
