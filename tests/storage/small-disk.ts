import { mkdtempSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command } from '@keelson/testkit';

/** A file system of its own, as small as asked for; gone with `dispose`. */
export interface SmallDisk extends AsyncDisposable {
  /** Where it is mounted. */
  readonly path: string;
  /** The file it lies in. */
  readonly image: string;
  /** Takes all the space that is left, but `keep` bytes. */
  fill(keep?: number): Promise<void>;
  /** Gives it back. */
  empty(): Promise<void>;
}

/** An ext4 of so many MiB on a loop device, without space kept for root. */
export async function smallDisk(megabytes: number): Promise<SmallDisk> {
  const folder = mkdtempSync(join(tmpdir(), 'keelson-small-'));
  const image = join(folder, 'image');
  const path = join(folder, 'disk');
  writeFileSync(image, '');
  truncateSync(image, megabytes * 1024 ** 2);
  await command('mkfs.ext4', ['-q', '-m', '0', image]);
  await command('mkdir', [path]);
  await command('mount', ['-o', 'loop', image, path]);
  const ballast = join(path, 'ballast');
  return {
    path,
    image,
    fill: async (keep = 0) => {
      await command('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=64K'], { anyExit: true });
      if (keep > 0) await command('truncate', ['-s', `-${keep}`, ballast]);
      await command('sync', ['-f', path]);
    },
    empty: async () => {
      rmSync(ballast, { force: true });
      await command('sync', ['-f', path]);
    },
    [Symbol.asyncDispose]: async () => {
      await command('umount', ['-l', path], { anyExit: true });
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Names in a folder, in order; none when it is not there. */
export function namesIn(path: string): string[] {
  try {
    return readdirSync(path).toSorted();
  } catch {
    return [];
  }
}
