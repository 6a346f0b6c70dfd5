import { expect, it } from 'vitest';
import { exitCodeIn, guestScript, initScript, modulesInOrder, readArguments } from './vm.mjs';

it('loads what a module needs before it, each once', () => {
  const dependencies = [
    'kernel/md/dm-thin-pool.ko: kernel/md/persistent.ko kernel/md/dm-mod.ko',
    'kernel/md/persistent.ko: kernel/md/dm-mod.ko',
    'kernel/md/dm-mod.ko:',
    'kernel/fs/ext4.ko.xz:',
    '',
  ].join('\n');
  expect(modulesInOrder(dependencies, ['dm-thin-pool', 'ext4', 'builtin', 'dm_mod'])).toEqual([
    'kernel/md/dm-mod.ko',
    'kernel/md/persistent.ko',
    'kernel/md/dm-thin-pool.ko',
    'kernel/fs/ext4.ko.xz',
  ]);
});

it('writes scripts that keep words together', () => {
  expect(initScript(['a.ko', 'b.ko'])).toContain('for m in a.ko b.ko;');
  expect(initScript([])).toContain('lowerdir=/host,upperdir');
  expect(initScript([], true)).toContain('lowerdir=/write/layer:/host,upperdir');
  const script = guestScript("/it's here", ['vitest', 'a b'], {
    env: { KEY: 'x y' },
    frozen: [{ from: '/a copy', to: '/it' }],
  });
  expect(script).toContain(`mkdir -p '/it'; mount --bind '/a copy' '/it'\ncd `);
  expect(script).toContain(`cd '/it'\\''s here'`);
  expect(script).toContain(`KEY='x y' 'vitest' 'a b') < /dev/null 2>&1 | cat`);
});

it('knows how the machine ended', () => {
  expect(exitCodeIn('✓ a\nKEELSON_VM_EXIT 1\n[ 3.1] reboot')).toBe(1);
  expect(exitCodeIn('Kernel panic')).toBeUndefined();
});

it('takes kinds, files and options apart', () => {
  const suites = { lvm: ['tests/a.test.ts'] };
  expect(readArguments(['lvm', 'xfs', 'plain'], suites)).toEqual({
    suite: 'lvm',
    kinds: ['xfs', 'plain'],
    files: ['tests/a.test.ts'],
    options: [],
  });
  expect(readArguments(['lvm', 'xfs', 'tests/b.test.ts', '-t', 'tests/c'], suites)).toMatchObject({
    kinds: ['xfs'],
    files: ['tests/b.test.ts'],
    options: ['-t', 'tests/c'],
  });
  expect(readArguments([], suites)).toBeUndefined();
  expect(readArguments(['toString'], suites)).toBeUndefined();
});
