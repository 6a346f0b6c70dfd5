import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { UsageError } from './command.ts';

/** A server that commands may name: `keelson list office:`. */
export interface Remote {
  /** `https://host:port`, or `unix:` for this machine's server. */
  readonly address: string;
}

export interface RemotesFile {
  readonly default: string;
  readonly remotes: Readonly<Record<string, Remote>>;
}

/** Folder of the CLI's configuration: `$KEELSON_CONF`, else `~/.config/keelson`. */
export function configFolder(env: NodeJS.ProcessEnv = process.env): string {
  return env['KEELSON_CONF'] || join(env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'keelson');
}

const LOCAL: RemotesFile = { default: 'local', remotes: { local: { address: 'unix:' } } };

/** The known remotes; `local` is always among them. */
export function readRemotes(folder: string = configFolder()): RemotesFile {
  const file = join(folder, 'config.yml');
  if (!existsSync(file)) return LOCAL;
  const found = parse(readFileSync(file, 'utf8')) as Partial<RemotesFile> | null;
  return { default: found?.default ?? 'local', remotes: { ...LOCAL.remotes, ...found?.remotes } };
}

export function writeRemotes(file: RemotesFile, folder: string = configFolder()): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, 'config.yml');
  writeFileSync(`${path}.new`, stringify(file), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** `remote:name` taken apart; without a colon the remote is empty. */
export function splitRemote(word: string): { readonly remote: string; readonly name: string } {
  const at = word.indexOf(':');
  return at < 0 ? { remote: '', name: word } : { remote: word.slice(0, at), name: word.slice(at + 1) };
}

/** Client options of a remote. @throws UsageError naming the known ones */
export function findRemote(name: string, folder: string = configFolder()): { endpoint?: string; verify?: string } {
  const file = readRemotes(folder);
  const wanted = name === '' ? file.default : name;
  const remote = file.remotes[wanted];
  if (remote === undefined) {
    throw new UsageError(
      `There is no remote "${wanted}"; known are ${Object.keys(file.remotes).join(', ')}. Add one with: keelson remote add ${wanted} https://HOST:8443`,
    );
  }
  if (remote.address === 'unix:') return {};
  const pinned = join(folder, 'servercerts', `${wanted}.crt`);
  return { endpoint: remote.address, ...(existsSync(pinned) ? { verify: pinned } : {}) };
}
