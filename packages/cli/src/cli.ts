import { CommanderError } from 'commander';
import { commands } from './commands/index.ts';
import { exitCodeOf, explain } from './explain.ts';
import { buildProgram } from './program.ts';
import { VERSION } from './version.ts';

/** Runs the command line of this process and sets its exit code: see docs/cli.md for the codes. */
export async function main(): Promise<void> {
  const interrupted = new AbortController();
  process.once('SIGINT', () => {
    interrupted.abort(new Error('interrupted'));
    process.once('SIGINT', () => process.exit(130));
  });
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  process.stderr.on('error', () => undefined); // nobody reads the notes any more: no reason to leave the work undone
  if (process.argv[2] === '--help-markdown') {
    const { markdown } = await import('./output/markdown.ts');
    process.stdout.write(markdown(commands));
    return;
  }
  const program = buildProgram({
    commands,
    version: VERSION,
    stdout: process.stdout,
    stderr: process.stderr,
    onExit: (code) => {
      process.exitCode = code;
    },
    signal: interrupted.signal,
  });
  try {
    await program.parseAsync();
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? 0 : 2;
      return;
    }
    process.stderr.write(`Error: ${explain(error)}\n`);
    process.exitCode = interrupted.signal.aborted ? 130 : exitCodeOf(error);
  }
}
