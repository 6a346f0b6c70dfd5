import { open } from 'node:fs/promises';
import { type Readable, Transform } from 'node:stream';
import { UsageError } from './command.ts';

/** Told how many bytes passed so far. */
type Told = (done: number) => void;

/** Passes everything on and tells how much that was. */
export function counted(told: Told): Transform {
  let done = 0;
  return new Transform({
    transform(chunk: Uint8Array, _encoding, pass) {
      done += chunk.byteLength;
      told(done);
      pass(null, chunk);
    },
  });
}

/**
 * The bytes of a file, opened before anything is sent; `-` is standard input. `progress` is given the size, where it
 * is known, and returns what is told while they are read. @throws UsageError when it cannot be read
 */
export async function openInput(path: string, progress?: (total: number | undefined) => Told): Promise<Readable> {
  if (path === '-') return process.stdin;
  try {
    const file = await open(path);
    const stat = await file.stat();
    if (stat.isFile()) {
      const content = file.createReadStream();
      if (progress === undefined) return content;
      const counter = counted(progress(stat.size));
      content.once('error', (error) => counter.destroy(error));
      return content.pipe(counter);
    }
    await file.close();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new UsageError(
      `Cannot read ${path}: ${code === 'ENOENT' ? 'there is no such file' : (error as Error).message}`,
    );
  }
  throw new UsageError(`Cannot read ${path}: it is no file`);
}
