import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { COMMAND_ENVIRONMENT } from '../run.ts';

const PROGRAM = 'sha256sum';

/** SHA-256 of a stream, computed in a process of its own so that the event loop only copies. */
export class HashProcess implements Disposable {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #digest: Promise<string>;

  constructor() {
    const child = spawn(PROGRAM, [], { stdio: ['pipe', 'pipe', 'ignore'], env: { ...COMMAND_ENVIRONMENT } });
    this.#child = child;
    this.#digest = new Promise((resolve, reject) => {
      let text = '';
      child.stdout.on('data', (chunk: Buffer) => {
        text += chunk.toString('latin1');
      });
      child.once('error', reject);
      child.once('close', () => {
        const digest = /^[0-9a-f]{64}/.exec(text)?.[0];
        if (digest === undefined) reject(new Error('sha256sum ended without a digest'));
        else resolve(digest);
      });
    });
    this.#digest.catch(() => undefined); // reported by `update` or `digest`
    child.stdin.on('error', () => undefined);
  }

  /** Resolves when the bytes are no longer needed. @throws Error when the process ended early. */
  async update(chunk: Uint8Array): Promise<void> {
    const taken = new Promise<void>((resolve, reject) => {
      this.#child.stdin.write(chunk, (error) => (error ? reject(error) : resolve()));
    });
    await Promise.race([taken, this.#digest]);
  }

  /** Lower-case hex. */
  digest(): Promise<string> {
    this.#child.stdin.end();
    return this.#digest;
  }

  [Symbol.dispose](): void {
    this.#child.kill('SIGKILL');
  }
}
