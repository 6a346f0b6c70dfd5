import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { UndoStack } from '../../core/undo-stack.ts';
import type { TransferTools } from './tools.ts';

/** Small texts beside a root, by their paths: `metadata.yaml`, `templates/…`. */
export type Beside = ReadonlyMap<string, string>;

/** The folder in a stage that holds a volume as LXD lays it out. */
export const VOLUME = 'volume';
/** The folder of a container's root in it. */
export const ROOT = 'rootfs';

/** A scratch folder with mounts in it; disposing it leaves nothing. */
export class Stage implements AsyncDisposable {
  readonly path: string;
  readonly #tools: TransferTools;
  readonly #mounts = new UndoStack();

  private constructor(path: string, tools: TransferTools) {
    this.path = path;
    this.#tools = tools;
  }

  static async open(scratch: string, tools: TransferTools): Promise<Stage> {
    const stage = new Stage(await mkdtemp(join(scratch, 'transfer-')), tools);
    try {
      await mkdir(join(stage.path, VOLUME), { mode: 0o100 });
      return stage;
    } catch (error) {
      await stage[Symbol.asyncDispose]();
      throw error;
    }
  }

  async bind(source: string, name: string, options: Parameters<TransferTools['bind']>[2]): Promise<string> {
    const target = join(this.path, name);
    await mkdir(target, { recursive: true, mode: 0o755 });
    await this.#tools.bind(source, target, options);
    this.#mounts.add(() => this.#tools.unmount(target));
    return target;
  }

  /** Everything bound so far is let go. */
  async release(): Promise<void> {
    await this.#mounts.unwind();
  }

  /** Makes it a place that a receiver cannot leave. */
  async jail(): Promise<void> {
    for (const target of await this.#tools.prepareJail(this.path)) this.#mounts.add(() => this.#tools.unmount(target));
  }

  async write(files: Beside): Promise<void> {
    for (const [name, text] of files) {
      const path = join(this.path, VOLUME, name);
      await mkdir(dirname(path), { recursive: true, mode: 0o755 });
      await writeFile(path, text, { mode: 0o644 });
    }
    await chmod(join(this.path, VOLUME), 0o100);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
    await rm(this.path, { recursive: true, force: true });
  }
}
