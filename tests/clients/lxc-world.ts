import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command, type CommandResult, type TestDaemon } from '@keelson/testkit';
import { InstanceWorld } from '../instances/world.ts';

/** Debian's `lxc`, with settings of its own, against a daemon with a pool, a bridge, a default profile and `tiny`. */
export class LxcWorld implements AsyncDisposable {
  /** Scratch folder, removed at the end; also the client's settings. */
  readonly folder: string;
  readonly #world: InstanceWorld;

  private constructor(world: InstanceWorld) {
    this.#world = world;
    this.folder = mkdtempSync(join(tmpdir(), 'keelson-lxc-'));
    chmodSync(this.folder, 0o755);
  }

  static async open(): Promise<LxcWorld> {
    return new LxcWorld(await InstanceWorld.open());
  }

  get daemon(): TestDaemon {
    return this.#world.daemon;
  }
  get bridge(): string {
    return this.#world.bridge;
  }
  get env(): Record<string, string> {
    return { LXD_DIR: this.daemon.stateDir, LXD_CONF: this.folder };
  }

  /** Resolves whatever the exit code is. */
  run(args: readonly string[], input = ''): Promise<CommandResult> {
    return command('lxc', args, { env: this.env, input, anyExit: true });
  }

  /** Its standard output. @throws Error unless it exits 0. */
  async ok(...args: string[]): Promise<string> {
    return this.pipe('', ...args);
  }

  /** The same with standard input. */
  async pipe(input: string, ...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(args, input);
    if (code !== 0) throw new Error(`lxc ${args.join(' ')}: ${code} ${stderr}`);
    return stdout;
  }

  /** What it says when it fails. @throws Error when it succeeds. */
  async fails(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(args);
    if (code === 0) throw new Error(`lxc ${args.join(' ')} succeeded: ${stdout}`);
    return stderr.trim();
  }

  /** What it prints on a terminal. */
  async terminal(line: string): Promise<string> {
    const { stdout } = await command('script', ['-qec', line, '/dev/null'], { env: this.env, input: '' });
    // The terminal shows the end of input, which `script` passes on at some moment.
    return stdout.replaceAll(/\r|\^[@D]|[\b]/g, '');
  }

  /** `lxc <noun> show … | change | lxc <noun> edit …`. */
  async edit(noun: readonly string[], change: (text: string) => string, ...args: string[]): Promise<void> {
    await this.pipe(change(await this.ok(...noun, 'show', ...args)), ...noun, 'edit', ...args);
  }

  /** A script that `$EDITOR` can name: it replaces `from` by `to` in the file it gets. */
  editor(from: string, to: string): string {
    const path = join(this.folder, 'editor.sh');
    writeFileSync(path, `#!/bin/sh\nexec sed -i 's/${from}/${to}/' "$1"\n`, { mode: 0o755 });
    return path;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#world[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
