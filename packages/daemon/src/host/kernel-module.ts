import { run } from './run.ts';

/** Asks for a part of the kernel that may be a module; no effect where it is built in, missing, or modules are not used. */
export async function loadModule(name: string): Promise<void> {
  await run('modprobe', ['-b', '--', name], { timeout: 30_000 }).catch(() => undefined);
}
