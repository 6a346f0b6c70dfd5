import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { command, tinyImage, until } from '@keelson/testkit';
import { normaliser } from './normalise.ts';

/** A server that the walk visits: `lxc` finds its socket in `dir`. */
export interface Visited {
  readonly dir: string;
  /** Scratch folder of this server alone: settings of `lxc`, files that the steps write. */
  readonly folder: string;
}

/** What a user saw of one step, and what a watcher of events saw meanwhile; both without what differs by nature. */
export interface Seen {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Lifecycle events, sorted. */
  lifecycle: readonly string[];
  /** Background operations that began, as they ended, sorted. */
  operations: readonly string[];
}

interface Happened {
  readonly from: number;
  readonly seen: Seen;
}

interface Event {
  readonly type: string;
  readonly timestamp: string;
  readonly project?: string;
  readonly metadata: Record<string, unknown>;
}

/** One server and the events it sends. */
export class Visit {
  readonly #server: Visited;
  readonly #clean: (text: string) => string;
  readonly #steps: Happened[] = [];
  readonly #events: string;
  #monitor: ChildProcess | undefined;

  constructor(server: Visited, fingerprint: string) {
    this.#server = server;
    this.#clean = normaliser(server, fingerprint);
    this.#events = join(server.folder, 'events');
  }

  /** A visit that has the image `tiny` and listens. */
  static async open(server: Visited): Promise<Visit> {
    mkdirSync(server.folder, { recursive: true });
    chmodSync(server.folder, 0o755);
    const { metadata, rootfs } = await tinyImage();
    const env = environment(server);
    const { stdout } = await command('lxc', ['image', 'import', metadata, rootfs, '--alias', 'tiny'], { env });
    const visit = new Visit(server, /[0-9a-f]{64}/.exec(stdout)?.[0] ?? 'none');
    visit.#listen(env);
    return visit;
  }

  #listen(env: Record<string, string>): void {
    const out = openSync(this.#events, 'w');
    const args = ['monitor', '--format', 'json', '--all-projects', '--type', 'lifecycle', '--type', 'operation'];
    this.#monitor = spawn('lxc', args, { stdio: ['ignore', out, 'ignore'], env: { ...process.env, ...env } });
  }

  /** Runs one line of shell in the server's folder. */
  async run(line: string, timeoutS = 60): Promise<Seen> {
    const from = Date.now();
    const env = environment(this.#server);
    const { folder } = this.#server;
    const result = await command('timeout', [`${timeoutS}`, '/bin/sh', '-c', line], {
      env,
      cwd: folder,
      anyExit: true,
      input: '',
    });
    const seen: Seen = {
      code: result.code,
      stdout: this.#clean(result.stdout),
      stderr: this.#clean(result.stderr),
      lifecycle: [],
      operations: [],
    };
    this.#steps.push({ from, seen });
    return seen;
  }

  /** Stops listening and gives every step the events that came between its start and the next one's. */
  async close(): Promise<void> {
    const monitor = this.#monitor;
    if (monitor === undefined) return;
    const end = Date.now();
    await this.#settled();
    monitor.kill('SIGTERM');
    const events = readEvents(this.#events);
    this.#steps.forEach(({ from, seen }, at) => {
      const to = this.#steps[at + 1]?.from ?? end;
      const during = (time: unknown): boolean => Date.parse(String(time)) >= from && Date.parse(String(time)) < to;
      seen.lifecycle = lifecycle(events.filter(({ timestamp }) => during(timestamp))).map(this.#clean);
      seen.operations = operations(events.filter(({ metadata }) => during(metadata['created_at']))).map(this.#clean);
    });
  }

  /** A last event that is known has come. */
  async #settled(): Promise<void> {
    const last = `last-${Date.now()}`;
    const env = environment(this.#server);
    await command('lxc', ['profile', 'create', last], { env });
    await until('the last event', () => Promise.resolve(readFileSync(this.#events, 'utf8').includes(last)));
  }
}

function environment({ dir, folder }: Visited): Record<string, string> {
  return {
    LXD_DIR: dir,
    LXD_CONF: join(folder, 'conf'),
    LXD_GLOBAL_CONF: join(folder, 'none'),
    TZ: 'UTC',
    LANG: 'C.UTF-8',
  };
}

function readEvents(path: string): Event[] {
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.filter((line) => line.endsWith('}')).map((line) => JSON.parse(line) as Event);
}

function lifecycle(events: readonly Event[]): string[] {
  return events
    .filter(({ type }) => type === 'lifecycle')
    .map(({ metadata, project }) => JSON.stringify({ ...sorted(metadata), in: project }))
    .sort();
}

/** The last state of each operation; `lxc monitor` may print events in another order than they came. */
function operations(events: readonly Event[]): string[] {
  const last = new Map<string, string>();
  const ended = ({ metadata: { status } }: Event): boolean => status !== 'Pending' && status !== 'Running';
  const inOrder = [...events].sort((a, b) => Number(ended(a)) - Number(ended(b)));
  for (const { type, metadata, project } of inOrder) {
    if (type !== 'operation') continue;
    const { id, class: kind, description, status, resources, may_cancel, location } = metadata;
    const told = { description, kind, status, resources: sorted(resources), may_cancel, location, in: project };
    const kept = Object.keys((metadata['metadata'] ?? {}) as object).filter((key) => !key.includes('progress'));
    last.set(String(id), JSON.stringify({ ...told, metadata: kept.sort() }));
  }
  return [...last.values()].sort();
}

/** The same with its keys in order. */
function sorted<T>(value: T): T {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .map(([key, part]) => [key, sorted(part)] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  ) as T;
}

export function scratch(base: string, name: string): string {
  const folder = join(base, name);
  mkdirSync(folder);
  writeFileSync(join(folder, 'nonsense'), 'nonsense\n');
  return folder;
}
