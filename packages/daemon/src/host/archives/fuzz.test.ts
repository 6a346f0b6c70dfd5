import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { displayName } from './entries.ts';
import { makeTar, METADATA } from './hostile.test-data.ts';
import { checkArchive, inspectImage } from './inspect.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'keelson-fuzz-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const entries = [
  { name: 'metadata.yaml', text: METADATA },
  { name: 'rootfs/', type: 'directory' as const },
  { name: 'rootfs/etc/', type: 'directory' as const },
  { name: 'rootfs/etc/hostname', text: 'name' },
  { name: 'rootfs/etc/link', type: 'symlink' as const, link: 'hostname' },
  { name: 'rootfs/etc/hard', type: 'link' as const, link: 'rootfs/etc/hostname' },
];

const sound = { type: 'container' };
const outcome = (main: string): Promise<unknown> =>
  inspectImage({ main }).then(
    ({ type }) => ({ type }),
    (error: unknown) => error,
  );

describe('archives nobody meant', () => {
  it('a damaged tar is an image or a bad request, never anything else', async () => {
    const whole = await makeTar(entries);
    const flips = fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(flips, fc.nat(whole.length), async (changes, keep) => {
        const damaged = Buffer.from(whole.subarray(0, Math.max(keep, whole.length - keep)));
        for (const [at, value] of changes) if (at < damaged.length) damaged[at] = value;
        const main = join(folder, 'damaged.tar');
        writeFileSync(main, damaged);
        const found = await outcome(main);
        if (!(found instanceof Error)) expect(found).toMatchObject(sound);
        else expect(found).toMatchObject({ code: 'bad-request' });
      }),
      { numRuns: 40 },
    );
  });

  it('every name reaches the checks as its bytes are', async () => {
    const part = fc
      .string({ minLength: 1, maxLength: 24, unit: 'binary' })
      .filter((text) => !/[/\0]/.test(text) && !/[\ud800-\udfff]/.test(text) && text !== '.' && text !== '..');
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(part, { minLength: 1, maxLength: 8 }), async (names) => {
        const path = join(folder, 'names.tar');
        const made = await makeTar(names.map((name) => ({ name: `templates/${name}`, text: 'x' })));
        writeFileSync(path, made);
        const format = { kind: 'tar', compression: 'none' } as const;
        const { metadata } = await checkArchive(path, { format, content: 'unified' }, {});
        expect(metadata.map(({ name }) => displayName(name))).toEqual(names.map((name) => `templates/${name}`));
      }),
      { numRuns: 25 },
    );
  });

  it('a damaged gzip is refused', async () => {
    const main = join(folder, 'damaged.gz');
    writeFileSync(main, await makeTar(entries));
    const whole = execFileSync('gzip', ['-c', main]);
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 20, max: whole.length - 1 }), async (length) => {
        writeFileSync(main, whole.subarray(0, length));
        expect(await outcome(main)).toMatchObject({ code: 'bad-request' });
      }),
      { numRuns: 10 },
    );
  });
});
