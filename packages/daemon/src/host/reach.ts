import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { COMMAND_ENVIRONMENT, CommandError } from './run.ts';

/** A command gave no answer in time. Its process may still be there: see `answerOf`. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError';
  /** Resolves when the process is gone. */
  readonly gone: Promise<unknown>;

  constructor(message: string, gone: Promise<unknown>) {
    super(message);
    this.gone = gone;
  }
}

const OUTPUT_LIMIT = 64 * 1024;

/**
 * Output of a command that touches a file system which may hang, such as one on the network. A request that such a file
 * system took cannot be given up, not even by SIGKILL: after `timeout` milliseconds the process is left to itself, killed
 * as soon as the kernel can.
 * @throws NoAnswerError when time is over, CommandError when it fails.
 */
export async function answerOf(command: string, args: readonly string[], timeout: number): Promise<string> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...COMMAND_ENVIRONMENT } });
  let [output, problem] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (output = (output + chunk.toString()).slice(0, OUTPUT_LIMIT)));
  child.stderr.on('data', (chunk: Buffer) => (problem = (problem + chunk.toString()).slice(0, OUTPUT_LIMIT)));
  const ended = once(child, 'close').then(([code]: unknown[]) => (typeof code === 'number' ? code : 255));
  const gone = ended.catch(() => undefined);
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    child.kill('SIGKILL');
    child.unref();
    child.stdout.destroy();
    child.stderr.destroy();
    reject(new NoAnswerError(`${command} ${args.join(' ')}: no answer in ${timeout} ms`, gone));
  }, timeout);
  try {
    const code = await Promise.race([ended, late]);
    if (code !== 0) throw new CommandError(command, args, { code, stderr: problem });
    return output;
  } finally {
    clearTimeout(timer);
  }
}

/** How long a question waits for the process of an earlier one that got no answer. */
const GRACE = 1000;

/** Asks whether something answers, with one process at a time however long one hangs. */
export class ReachProbe {
  readonly #ask: () => Promise<unknown>;
  #open: Promise<unknown> | undefined;
  #stuck: { readonly error: NoAnswerError } | undefined;

  /** `ask`: built on `answerOf`. */
  constructor(ask: () => Promise<unknown>) {
    this.#ask = ask;
  }

  /** @throws NoAnswerError, or what the question throws. */
  async check(): Promise<void> {
    if (this.#stuck !== undefined) await this.#wait(this.#stuck.error);
    await (this.#open ??= this.#start());
  }

  async #start(): Promise<unknown> {
    try {
      return await this.#ask();
    } catch (error) {
      if (error instanceof NoAnswerError) {
        const stuck = { error };
        this.#stuck = stuck;
        void error.gone.then(() => (this.#stuck = undefined));
      }
      throw error;
    } finally {
      this.#open = undefined;
    }
  }

  async #wait(error: NoAnswerError): Promise<void> {
    const { promise, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(error), GRACE);
    try {
      await Promise.race([error.gone, promise]);
    } finally {
      clearTimeout(timer);
    }
  }
}
