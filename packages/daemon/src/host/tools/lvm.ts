import { readFile } from 'node:fs/promises';
import { loadModule } from '../kernel-module.ts';
import { CommandError, run } from '../run.ts';

/** One `lvm` command without the leading `lvm`, for example `['lvremove', '--force', 'vg/lv']`. */
export type LvmCommand = readonly string[];

/** LVM's exit status when what was named is not there (or anything else failed: see `isMissing`). */
const FAILED = 5;
const ENVIRONMENT = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C.UTF-8',
  LVM_SUPPRESS_FD_WARNINGS: '1',
};

/** @throws CommandError with LVM's words. */
export async function lvm(command: LvmCommand): Promise<string> {
  const [name = '', ...args] = command;
  return (await run(name, args, { env: ENVIRONMENT, timeout: 600_000 })).stdout;
}

/** As `lvm`; undefined when the volume or group is not there. */
export async function lvmIfThere(command: LvmCommand): Promise<string | undefined> {
  try {
    return await lvm(command);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Whether a command failed because what it names does not exist. */
export function isMissing(error: unknown): boolean {
  return error instanceof CommandError && error.code === FAILED && /not found|Failed to find/i.test(error.stderr);
}

/** Whether a command failed because its volume group does not exist. */
export function isGroupMissing(error: unknown): boolean {
  return isMissing(error) && error instanceof CommandError && /Volume group "[^"]*" not found/i.test(error.stderr);
}

/** Whether a command failed for want of space in a thin pool or a volume group. */
export function isFull(error: unknown): boolean {
  const text = error instanceof CommandError ? error.stderr : '';
  return /free space in thin pool .* reached threshold|insufficient free space|insufficient suitable/i.test(text);
}

/** Version of the tools; undefined when they are not installed. */
export async function lvmVersion(): Promise<string | undefined> {
  try {
    const { stdout } = await run('lvm', ['version', '--driverloaded', 'n'], {
      env: ENVIRONMENT,
      ok: [0, 5],
      timeout: 10_000,
    });
    return /LVM version:\s*(\S+)/.exec(stdout)?.[1];
  } catch {
    return undefined;
  }
}

/** Whether the kernel has device-mapper; a module is loaded. */
export async function hasDeviceMapper(): Promise<boolean> {
  const listed = async () => /^\s*\d+ device-mapper$/m.test(await readFile('/proc/misc', 'utf8').catch(() => ''));
  if (await listed()) return true;
  await loadModule('dm-mod');
  return listed();
}
