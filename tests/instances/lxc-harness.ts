import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allOf, command, probePrograms, probeRoot, removeLeftovers, tinyImage } from '@keelson/testkit';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import type {
  ExecSpec,
  GuestEvent,
  InstanceRef,
  StartSpec,
} from '../../packages/daemon/src/drivers/instance/contract.ts';
import { LxcFiles } from '../../packages/daemon/src/drivers/instance/lxc/files.ts';
import { LxcDriver } from '../../packages/daemon/src/drivers/instance/lxc/lxc-driver.ts';
import { noLimits } from '../../packages/daemon/src/drivers/instance/lxc/no-limits.test-data.ts';

export const host = allOf(probeRoot(), probePrograms('lxc-start', 'unsquashfs', 'newuidmap'));

export const ref = (name: string): InstanceRef => ({ key: name, project: 'default', name });

/** A driver on a state folder of its own, with one unpacked root that its guests copy. */
export class LxcHarness implements AsyncDisposable {
  readonly state: string;
  readonly events: GuestEvent[] = [];
  driver: LxcDriver;
  readonly #root: string;

  private constructor(state: string, root: string) {
    this.state = state;
    this.#root = root;
    this.driver = this.#newDriver();
  }

  static async create(image?: { readonly rootfs: string }): Promise<LxcHarness> {
    const state = mkdtempSync(join(tmpdir(), 'keelson-lxc-'));
    chmodSync(state, 0o711);
    const root = join(state, 'image');
    await command('unsquashfs', ['-q', '-n', '-d', root, (image ?? (await tinyImage())).rootfs], {
      timeoutMs: 60_000,
    });
    return new LxcHarness(state, root);
  }

  get lxcPath(): string {
    return join(this.state, 'lxc');
  }

  /** The same state folder after the daemon died: nothing in memory. */
  async restartDriver(): Promise<LxcDriver> {
    await this.driver.dispose();
    this.driver = this.#newDriver();
    return this.driver;
  }

  spec(name: string, changes: Partial<StartSpec> = {}): StartSpec {
    const path = join(this.state, 'roots', name);
    if (!existsSync(path)) {
      mkdirSync(join(this.state, 'roots'), { recursive: true });
      cpSync(this.#root, path, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
    }
    return {
      ...ref(name),
      rootfs: { path, ids: 'plain', readOnly: false },
      idRange: { base: 100_000, size: 65_536 },
      hostname: name,
      architecture: 'x86_64',
      environment: {},
      nics: [],
      mounts: [],
      unixDevices: [],
      limits: noLimits,
      nesting: false,
      privileged: false,
      security: {},
      rawLxc: '',
      logDir: join(this.state, 'logs', name),
      ...changes,
    };
  }

  /** Runs a command without a terminal to its end. */
  async exec(name: string, argv: readonly string[], changes: Partial<ExecSpec> = {}): Promise<ExecResult> {
    const spec = { command: argv, environment: {}, user: 0, group: 0, cwd: '', terminal: undefined, ...changes };
    const process = await this.driver.exec(ref(name), spec);
    if (process.stdio === undefined) throw new Error('asked for streams, got a terminal');
    process.stdio.stdin.end();
    const [stdout, stderr, code] = await Promise.all([
      text(process.stdio.stdout),
      text(process.stdio.stderr),
      process.exited,
    ]);
    await process.dispose();
    return { code, stdout, stderr };
  }

  /** Cgroups of this state folder's guests, in all hierarchies. */
  cgroups(): string[] {
    const { cgroupPrefix } = new LxcFiles(this.lxcPath);
    const roots = ['/sys/fs/cgroup', ...readdirSync('/sys/fs/cgroup').map((name) => `/sys/fs/cgroup/${name}`)];
    return roots.flatMap((root) => {
      try {
        return readdirSync(root)
          .filter((name) => name.startsWith(cgroupPrefix))
          .map((name) => join(root, name));
      } catch {
        return [];
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const names = existsSync(this.lxcPath) ? readdirSync(this.lxcPath).filter((name) => !name.startsWith('.')) : [];
    for (const name of names) await this.driver.kill(ref(name));
    await this.driver.dispose();
    await removeLeftovers(this.state);
    rmSync(this.state, { recursive: true, force: true });
  }

  #newDriver(): LxcDriver {
    const driver = new LxcDriver({ root: join(this.state, 'lxc'), log: silentLog });
    driver.subscribe((event) => this.events.push(event));
    return driver;
  }
}

export interface ExecResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export async function text(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
