import { run } from '../run.ts';

/** Creates a character or block device file with mode 0600. @throws CommandError, for example when it exists. */
export async function makeDevice(
  path: string,
  device: { readonly kind: 'char' | 'block'; readonly major: number; readonly minor: number },
): Promise<void> {
  const type = device.kind === 'char' ? 'c' : 'b';
  await run('mknod', ['-m', '600', path, type, String(device.major), String(device.minor)]);
}
