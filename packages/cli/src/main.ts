#!/usr/bin/env node
import { CommanderError } from 'commander';
import { commands } from './commands/index.ts';
import { explain } from './explain.ts';
import { buildProgram } from './program.ts';
import { VERSION } from './version.ts';

const interrupted = new AbortController();
process.once('SIGINT', () => {
  interrupted.abort(new Error('interrupted'));
  process.once('SIGINT', () => process.exit(130));
});
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

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
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    process.stderr.write(`Error: ${explain(error)}\n`);
    process.exitCode = interrupted.signal.aborted ? 130 : error instanceof Error && error.name === 'UsageError' ? 2 : 1;
  }
}
