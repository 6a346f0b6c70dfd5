import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../run.ts';

const HOUR = 3_600_000;
const SECOND = 1_000_000_000n;

/**
 * Turns long runs of zeros in a file into holes; content and times stay. `name` is below `folder`, one character per
 * byte. A file system without holes leaves it as it is.
 */
export async function digHoles(folder: string, name: string, signal?: AbortSignal): Promise<void> {
  const path = Buffer.from(name, 'latin1').toString('utf8');
  // A name that is no text cannot be an argument here; its file merely keeps its zeros.
  if (Buffer.from(path).toString('latin1') !== name) return;
  const before = await lstat(join(folder, path), { bigint: true });
  await run('fallocate', ['--dig-holes', '--', `./${path}`], {
    cwd: folder,
    timeout: HOUR,
    ok: [0, 1],
    ...(signal === undefined ? {} : { signal }),
  });
  const { mtimeNs } = before;
  if ((await lstat(join(folder, path), { bigint: true })).mtimeNs === mtimeNs) return;
  const time = `@${mtimeNs / SECOND}.${String(mtimeNs % SECOND).padStart(9, '0')}`;
  await run('touch', ['--no-create', '--no-dereference', '-m', '-d', time, '--', `./${path}`], { cwd: folder });
}
