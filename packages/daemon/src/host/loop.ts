import { truncate } from 'node:fs/promises';
import { run } from './run.ts';

/** Loop device that stands for `file`, or undefined. */
export async function loopDeviceOf(file: string): Promise<string | undefined> {
  const { stdout } = await run('losetup', ['--noheadings', '--output', 'NAME', '--associated', file]);
  const device = stdout.trim().split('\n')[0]?.trim();
  return device === undefined || device === '' ? undefined : device;
}

/** Mounts the file system inside `file`; the loop device goes away with the mount. */
export async function mountLoop(file: string, target: string, type: string, options: readonly string[]): Promise<void> {
  await run('mount', ['-t', type, '-o', ['loop', ...options].join(','), '--', file, target]);
}

/** Grows `file` to `size` bytes and tells the loop device that stands for it, if any. */
export async function growLoop(file: string, size: number): Promise<void> {
  await truncate(file, size);
  const device = await loopDeviceOf(file);
  if (device !== undefined) await run('losetup', ['--set-capacity', device]);
}

export async function mountDevice(
  device: string,
  target: string,
  type: string,
  options: readonly string[],
): Promise<void> {
  await run('mount', ['-t', type, ...(options.length === 0 ? [] : ['-o', options.join(',')]), '--', device, target]);
}

/** Loop device that stands for `file`; made when there is none. */
export async function attachLoop(file: string): Promise<string> {
  const known = await loopDeviceOf(file);
  if (known !== undefined) return known;
  const { stdout } = await run('losetup', ['--find', '--show', '--', file]);
  return stdout.trim();
}

/** Removes the loop device that stands for `file`; it goes when nothing uses it any more. */
export async function detachLoop(file: string): Promise<void> {
  const device = await loopDeviceOf(file);
  if (device !== undefined) await run('losetup', ['--detach', device]);
}
