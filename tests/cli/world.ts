import { command, type CommandResult, startDaemon, type TestDaemon, tinyImage } from '@keelson/testkit';
import { type IPty, spawn } from '@lydell/node-pty';
import { build } from 'esbuild';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The command line as it is shipped: bundled, so that it starts quickly. @returns its main file */
async function bundleCli(folder: string): Promise<string> {
  await build({
    entryPoints: [fileURLToPath(new URL('../../packages/cli/src/main.ts', import.meta.url))],
    outdir: folder,
    bundle: true,
    splitting: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    conditions: ['source'],
    outExtension: { '.js': '.mjs' },
    logLevel: 'warning',
    banner: {
      js: `import { createRequire as __createRequire } from 'node:module';\nconst require = __createRequire(import.meta.url);`,
    },
  });
  return join(folder, 'main.mjs');
}

export interface RunOptions {
  readonly input?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
}

/** A person at the command line, with a configuration of their own. */
export class Person implements Disposable {
  readonly home = mkdtempSync(join(tmpdir(), 'keelson-cli-'));
  /** Main file of the command line. */
  readonly program: string;
  readonly env: Readonly<Record<string, string>>;

  /** `stateDir` is where the local server is; without one there is none. */
  constructor(program: string, stateDir?: string) {
    this.program = program;
    this.env = {
      KEELSON_DIR: stateDir ?? join(this.home, 'nowhere'),
      KEELSON_CONF: join(this.home, 'conf'),
      XDG_CACHE_HOME: join(dirname(program), 'cache'),
      NODE_OPTIONS: '',
    };
  }

  /** Runs one command whatever its exit code. */
  run(args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    return command(process.execPath, [this.program, ...args], {
      env: { ...this.env, ...options.env },
      anyExit: true,
      ...(options.input === undefined ? {} : { input: options.input }),
    });
  }

  /** Standard output of a command that must work. @throws Error with its standard error */
  async ok(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(args);
    if (code !== 0) throw new Error(`keelson ${args.join(' ')}: exit ${code}: ${stderr}`);
    return stdout;
  }

  /** Runs a command on a terminal. */
  onTerminal(
    args: readonly string[],
    options: { readonly cols?: number; readonly rows?: number; readonly env?: Readonly<Record<string, string>> } = {},
  ): Terminal {
    const env = { ...process.env, ...this.env, TERM: 'xterm', ...options.env };
    return new Terminal(spawn(process.execPath, [this.program, ...args], { cols: 80, rows: 24, ...options, env }));
  }

  [Symbol.dispose](): void {
    rmSync(this.home, { recursive: true, force: true });
  }
}

const PATIENCE_MS = 40_000;

/** A terminal with a command on it. */
export class Terminal implements Disposable {
  /** Everything it showed. */
  shown = '';
  readonly pty: IPty;
  readonly exited: Promise<number>;
  #ended = false;
  #wake: (() => void) | undefined;

  constructor(pty: IPty) {
    this.pty = pty;
    pty.onData((data) => {
      this.shown += data;
      this.#wake?.();
    });
    this.exited = new Promise((resolve) =>
      pty.onExit(({ exitCode }) => {
        this.#ended = true;
        resolve(exitCode);
        this.#wake?.();
      }),
    );
  }

  type(text: string): void {
    this.pty.write(text);
  }

  /** Resolves when it has shown something that matches. @throws Error with what it showed instead */
  async shows(pattern: RegExp): Promise<void> {
    const deadline = Date.now() + PATIENCE_MS;
    while (!pattern.test(this.shown)) {
      if (Date.now() > deadline) throw new Error(`The terminal did not show ${pattern}: ${JSON.stringify(this.shown)}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        setTimeout(resolve, 500);
      });
    }
  }

  [Symbol.dispose](): void {
    if (!this.#ended) this.pty.kill('SIGKILL'); // else its pid may be another's by now
  }
}

/** A daemon with a `dir` pool, a default profile on it and the image `tiny`, and a person who uses it. */
export class CliWorld implements AsyncDisposable {
  readonly daemon: TestDaemon;
  readonly person: Person;
  readonly #folder: string;
  readonly #program: string;

  private constructor(daemon: TestDaemon, folder: string, program: string) {
    this.daemon = daemon;
    this.#folder = folder;
    this.#program = program;
    this.person = new Person(program, daemon.stateDir);
  }

  static async open(): Promise<CliWorld> {
    const folder = mkdtempSync(join(tmpdir(), 'keelson-cli-bundle-'));
    let program: string;
    let daemon: TestDaemon;
    try {
      program = await bundleCli(folder);
      daemon = await startDaemon();
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
    const world = new CliWorld(daemon, folder, program);
    try {
      await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
      await daemon.run('PATCH', '/1.0/profiles/default', { devices: { root: { type: 'disk', path: '/', pool: 'p' } } });
      const { metadata, rootfs } = await tinyImage();
      await world.person.ok('image', 'import', metadata, rootfs, '--alias', 'tiny');
    } catch (error) {
      await world[Symbol.asyncDispose]();
      throw error;
    }
    return world;
  }

  /** Somebody without a server on their machine. */
  stranger(): Person {
    return new Person(this.#program);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    rmSync(this.#folder, { recursive: true, force: true });
    this.person[Symbol.dispose]();
    await this.daemon[Symbol.asyncDispose]();
  }
}
