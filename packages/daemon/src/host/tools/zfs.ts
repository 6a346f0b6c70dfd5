import { readFile } from 'node:fs/promises';
import { loadModule } from '../kernel-module.ts';
import { CommandError, run } from '../run.ts';
import { runStream } from '../run-stream.ts';

/** One command with its arguments, for example `['zfs', 'destroy', 'tank/a']`. */
export type ZfsCommand = readonly string[];

const DAY = 24 * 3_600_000;

/** @throws CommandError with zfs' words. */
export async function zfs(command: ZfsCommand): Promise<string> {
  const [name = '', ...args] = command;
  return (await run(name, args, { timeout: 600_000 })).stdout;
}

/** As `zfs`; undefined when the dataset or pool is not there. */
export async function zfsIfThere(command: ZfsCommand): Promise<string | undefined> {
  try {
    return await zfs(command);
  } catch (error) {
    if (error instanceof CommandError && /does not exist|no such pool|no datasets available/i.test(error.stderr))
      return undefined;
    throw error;
  }
}

/** Feeds what one command writes to another. @throws CommandError of the one that failed. */
export async function zfsPipe(from: ZfsCommand, to: ZfsCommand, signal?: AbortSignal): Promise<void> {
  const [source = '', ...sourceArgs] = from;
  const [target = '', ...targetArgs] = to;
  const limits = { timeout: DAY, ...(signal === undefined ? {} : { signal }) };
  await runStream(source, sourceArgs, {
    ...limits,
    stdout: async (stdin) => {
      await runStream(target, targetArgs, { ...limits, stdin });
    },
  });
}

/** Version of the tools, such as `2.2.6`; undefined when they are not installed. */
export async function zfsVersion(): Promise<string | undefined> {
  try {
    const { stdout } = await run('zfs', ['version'], { timeout: 10_000, ok: [0, 1] });
    return /zfs-(\d+(?:\.\d+)+)/.exec(stdout)?.[1];
  } catch {
    return undefined;
  }
}

/** Version of the kernel's part, such as `2.1.11`; undefined when it does not tell. */
export async function moduleVersion(): Promise<string | undefined> {
  const text = await readFile('/sys/module/zfs/version', 'utf8').catch(() => '');
  return /^(\d+(?:\.\d+)+)/.exec(text)?.[1];
}

/** Whether the kernel has zfs; a module is loaded. */
export async function kernelHasZfs(): Promise<boolean> {
  const listed = async () => /\tzfs$/m.test(await readFile('/proc/filesystems', 'utf8').catch(() => ''));
  if (await listed()) return true;
  await loadModule('zfs');
  return listed();
}
