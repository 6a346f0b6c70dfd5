import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { UsageError } from '../command.ts';

/** Text of standard input, when it is not a terminal. */
export async function readInput(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

/** Opens the user's editor on a text and returns what was saved. @throws UsageError when the editor failed */
export function openEditor(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'keelson-edit-'));
  const file = join(folder, 'edit.yaml');
  try {
    writeFileSync(file, text, { mode: 0o600 });
    const [command = 'vi', ...args] = (process.env['VISUAL'] || process.env['EDITOR'] || 'vi').split(/\s+/);
    const { status, error } = spawnSync(command, [...args, file], { stdio: 'inherit' });
    if (error !== undefined || status !== 0)
      throw new UsageError(`The editor "${command}" failed; set $EDITOR to another`);
    return readFileSync(file, 'utf8');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A record edited as YAML: from standard input when that is no terminal, else in the editor. Unchanged text changes nothing. */
export async function edited<T extends object>(current: T): Promise<T | undefined> {
  const text = stringify(current, { version: '1.1' });
  const changed = process.stdin.isTTY ? openEditor(text) : await readInput();
  if (changed === text) return undefined;
  const value = parse(changed) as T | null;
  if (value === null || typeof value !== 'object') throw new UsageError('The text is no YAML record');
  return value;
}
