import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The repository's root folder. */
export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** The environment in which the workspace's own Node and tools come first; without colours where nobody sees them. */
export function toolEnv(env = process.env) {
  const plain = process.stdout.isTTY ? {} : { NO_COLOR: '1' };
  return { ...plain, ...env, PATH: `${join(ROOT, 'node_modules', '.bin')}:${env.PATH ?? ''}` };
}

/** The environment without the workspace's tools: for npm itself, which replaces them. */
export function systemEnv(env = process.env) {
  const own = join('node_modules', '.bin');
  const path = (env.PATH ?? '').split(':').filter((folder) => !folder.endsWith(own));
  return { ...env, PATH: path.join(':') };
}

/**
 * Runs a program, its output passed through. Resolves with the exit code, 128 when a signal ended it, 127 when it is not there.
 * @param {string[]} argv
 * @param {{env?: NodeJS.ProcessEnv, cwd?: string}} [options]
 * @returns {Promise<number>}
 */
export function pass(argv, options = {}) {
  const [program = '', ...args] = argv;
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      cwd: ROOT,
      env: toolEnv(),
      ...options,
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    child.once('error', (error) => {
      console.error(`cannot run ${program}: ${error.message}`);
      resolve(127);
    });
    child.once('close', (code) => resolve(code ?? 128));
  });
}

/**
 * Runs a program and keeps what it says; `onLine` hears its stderr as it comes.
 * @param {string[]} argv
 * @param {{env?: NodeJS.ProcessEnv, cwd?: string, onLine?: (line: string) => void}} [options]
 * @returns {Promise<{code: number, stdout: string, stderr: string}>}
 */
export function capture(argv, { onLine, ...options } = {}) {
  const [program = '', ...args] = argv;
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd: ROOT, env: toolEnv(), ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    const out = { stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', (text) => (out.stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text) => {
      out.stderr += text;
      onLine?.(text.trim().split('\n').at(-1) ?? '');
    });
    child.once('error', (error) => resolve({ code: 127, stdout: out.stdout, stderr: error.message }));
    child.once('close', (code) => resolve({ code: code ?? 128, ...out }));
  });
}

/**
 * As `capture`, but a failure throws with the end of what the program said.
 * @param {string[]} argv
 * @param {{env?: NodeJS.ProcessEnv, cwd?: string, onLine?: (line: string) => void}} [options]
 */
export async function must(argv, options = {}) {
  const result = await capture(argv, options);
  if (result.code === 0) return result.stdout;
  const tail = `${result.stdout}\n${result.stderr}`.trim().split('\n').slice(-15).join('\n');
  throw new Error(`${argv.join(' ')} failed with exit code ${result.code}:\n${tail}`);
}
