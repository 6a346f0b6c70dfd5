import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { command } from '@keelson/testkit';
import { driverNamed } from './drivers.ts';

const probed = await driverNamed('lvm').probe();

/** Whether logical volumes can be made here, and why not. */
export const lvmHere = { ok: probed.supported, reason: probed.reason ?? '' } as const;

const quiet = { env: { LVM_SUPPRESS_FD_WARNINGS: '1' } };

/** Logical volumes of a group by name, without the thin pool and the pool's notes. */
export async function logicalVolumes(group: string): Promise<string[]> {
  const { stdout } = await command('lvs', ['--noheadings', '-o', 'lv_name', group], quiet);
  return stdout
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => !['', 'LXDThinPool', 'keelson_notes'].includes(line))
    .toSorted();
}

const mangled = (group: string): string => `${group.replaceAll('-', '--')}-`;

/** Unmounts everything that is mounted from the group. */
async function unmountGroup(group: string): Promise<void> {
  const mounts = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith(`/dev/mapper/${mangled(group)}`));
  for (const line of mounts.toReversed()) await command('umount', ['-l', line.split(' ')[1] ?? ''], { anyExit: true });
}

/** Takes the group from the kernel with everything that is mounted from it; the data stays. */
export async function forgetGroup(group: string): Promise<void> {
  await unmountGroup(group);
  await command('vgchange', ['--activate', 'n', group], quiet);
}

/** What is left of a group, however broken it is. */
export async function removeGroup(group: string): Promise<void> {
  await unmountGroup(group);
  await command('vgremove', ['--force', '--force', group], { ...quiet, anyExit: true });
  const { stdout } = await command('dmsetup', ['ls'], { anyExit: true });
  const left = stdout
    .split('\n')
    .map((line) => line.split('\t')[0] ?? '')
    .filter((name) => name.startsWith(mangled(group)));
  if (left.length > 0) await command('dmsetup', ['remove', '--force', '--retry', ...left], { anyExit: true });
}

/** Loop devices on a file, whatever it is called now. */
export async function loopsOf(file: string): Promise<string[]> {
  const { stdout } = await command('losetup', ['--noheadings', '--output', 'NAME', '--associated', file]);
  return stdout.split('\n').filter((line) => line.trim() !== '');
}

export async function detachLoops(file: string): Promise<void> {
  for (const loop of await loopsOf(file)) await command('losetup', ['--detach', loop.trim()]);
}

/** How long a full thin pool keeps writers waiting, in seconds; the former value comes back when disposed of. */
export function noSpaceTimeout(seconds: number): Disposable {
  const file = '/sys/module/dm_thin_pool/parameters/no_space_timeout';
  const before = existsSync(file) ? readFileSync(file, 'utf8') : undefined;
  if (before !== undefined) writeFileSync(file, String(seconds));
  return { [Symbol.dispose]: () => before !== undefined && writeFileSync(file, before) };
}
