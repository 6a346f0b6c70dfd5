import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { UsageError } from './command.ts';

export const PROTOCOLS = ['lxd', 'simplestreams'] as const;

/** A server that commands may name: `keelson list office:`. */
export interface Remote {
  /** `https://host:port`, `unix:/path`, or `unix:` for this machine's server. */
  readonly address: string;
  /** What it speaks; `simplestreams` servers only give images. Default `lxd`. */
  readonly protocol?: (typeof PROTOCOLS)[number];
  /** Project to work in when `--project` names none. */
  readonly project?: string;
}

export interface RemotesFile {
  readonly default: string;
  readonly remotes: Readonly<Record<string, Remote>>;
}

/** How to reach a remote: options of a client. */
export interface RemoteAccess {
  readonly endpoint?: string;
  readonly verify?: string;
  readonly project?: string;
}

/** Folder of the CLI's configuration: `$KEELSON_CONF`, else `~/.config/keelson`. */
export function configFolder(env: NodeJS.ProcessEnv = process.env): string {
  return env['KEELSON_CONF'] || join(env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'keelson');
}

/** Remotes that are always there; a file may give the names another meaning. */
export const BUILT_IN: RemotesFile = {
  default: 'local',
  remotes: {
    local: { address: 'unix:' },
    images: { address: 'https://images.lxd.canonical.com', protocol: 'simplestreams' },
    ubuntu: { address: 'https://cloud-images.ubuntu.com/releases', protocol: 'simplestreams' },
  },
};

/** The known remotes. @throws UsageError when the file is no YAML */
export function readRemotes(folder: string = configFolder()): RemotesFile {
  const file = join(folder, 'config.yml');
  if (!existsSync(file)) return BUILT_IN;
  let found: Partial<RemotesFile> | null;
  try {
    found = parse(readFileSync(file, 'utf8')) as Partial<RemotesFile> | null;
  } catch (error) {
    throw new UsageError(`Cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  return { default: found?.default ?? 'local', remotes: { ...BUILT_IN.remotes, ...found?.remotes } };
}

/** Writes what differs from the built-in remotes; the file is replaced at once. */
export function writeRemotes(file: RemotesFile, folder: string = configFolder()): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const own = Object.entries(file.remotes).filter(
    ([name, remote]) => JSON.stringify(remote) !== JSON.stringify(BUILT_IN.remotes[name]),
  );
  const path = join(folder, 'config.yml');
  writeFileSync(`${path}.new`, stringify({ ...file, remotes: Object.fromEntries(own) }), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Where the certificate of a remote is pinned. */
export function pinnedCertificate(name: string, folder: string = configFolder()): string {
  return join(folder, 'servercerts', `${name}.crt`);
}

export function pinCertificate(name: string, pem: string, folder: string = configFolder()): void {
  mkdirSync(join(folder, 'servercerts'), { recursive: true, mode: 0o700 });
  writeFileSync(pinnedCertificate(name, folder), pem, { mode: 0o600 });
}

export function unpinCertificate(name: string, folder: string = configFolder()): void {
  rmSync(pinnedCertificate(name, folder), { force: true });
}

/** `remote:name` taken apart; without a colon the remote is empty. */
export function splitRemote(word: string): { readonly remote: string; readonly name: string } {
  const at = word.indexOf(':');
  return at < 0 ? { remote: '', name: word } : { remote: word.slice(0, at), name: word.slice(at + 1) };
}

/** A remote by name; empty for the default one. @throws UsageError naming the known ones */
export function remoteOf(name: string, folder: string = configFolder()): Remote & { readonly name: string } {
  const file = readRemotes(folder);
  const wanted = name === '' ? file.default : name;
  const remote = Object.hasOwn(file.remotes, wanted) ? file.remotes[wanted] : undefined;
  if (remote === undefined) {
    throw new UsageError(
      `There is no remote "${wanted}"; known are ${Object.keys(file.remotes).join(', ')}. Add one with: keelson remote add ${wanted} https://HOST:8443`,
    );
  }
  return { name: wanted, ...remote };
}

/** Client options of a remote. @throws UsageError for an unknown one, or one that only gives images */
export function findRemote(name: string, folder: string = configFolder()): RemoteAccess {
  const { name: found, address, protocol, project } = remoteOf(name, folder);
  if (protocol === 'simplestreams') {
    throw new UsageError(
      `The remote "${found}" only gives images: name one of it, as in "keelson launch ${found}:IMAGE"`,
    );
  }
  const scope = project === undefined ? {} : { project };
  if (address === 'unix:') return scope;
  const pinned = pinnedCertificate(found, folder);
  return { endpoint: address, ...scope, ...(existsSync(pinned) ? { verify: pinned } : {}) };
}
