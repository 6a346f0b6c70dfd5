import { fileURLToPath } from 'node:url';
import { CommandError, run } from './run.ts';

/** A mount to make in, or take from, the mount namespace of a running guest. */
export type GuestMountRequest =
  | {
      readonly act: 'attach';
      /** Any process of the guest. */
      readonly pid: number;
      readonly source: string;
      /** Absolute path in the guest; created when absent. */
      readonly target: string;
      readonly kind: 'folder' | 'file';
      readonly readOnly: boolean;
      readonly recursive: boolean;
      /** Show the source's ids through the guest's id map. */
      readonly shift: boolean;
      /** Host id that created folders belong to: the guest's root. */
      readonly owner: number;
    }
  | {
      readonly act: 'detach';
      readonly pid: number;
      readonly target: string;
      /** Also remove the (empty) file that was mounted over. */
      readonly removeFile: boolean;
      readonly owner: number;
    };

/** In the bundle this module is part of `main.js`; the worker keeps its own file. */
const WORKER = fileURLToPath(
  new URL(
    import.meta.filename.endsWith('.ts') ? './guest-mount-worker.ts' : './host/guest-mount-worker.js',
    import.meta.url,
  ),
);

/**
 * Mounts in a running guest without a mount of its own on the host and without running anything of the guest: a
 * process of its own clones the source's mount, enters the guest's mount namespace and attaches the clone there.
 * @throws CommandError whose stderr is one sentence.
 */
export async function changeGuestMount(request: GuestMountRequest): Promise<void> {
  try {
    await run(process.execPath, [WORKER, JSON.stringify(request)], { timeout: 30_000 });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    throw new Error(error.stderr.trim().split('\n').at(-1) ?? 'mount failed', { cause: error });
  }
}
