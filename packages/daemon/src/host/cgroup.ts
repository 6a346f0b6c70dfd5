import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseMountInfo } from './mounts.ts';

/** Where the kernel's cgroup hierarchies are mounted. */
export interface CgroupLayout {
  readonly kind: 'v1' | 'hybrid' | 'v2';
  /** Controller name (also `name=systemd`) to mount point, version 1. */
  readonly v1: ReadonlyMap<string, string>;
  /** Mount point of version 2. */
  readonly v2: string | undefined;
  /** Controllers that version 2 drives. */
  readonly v2Controllers: ReadonlySet<string>;
}

const V1_OPTIONS = new Set(['rw', 'ro', 'xattr', 'noprefix', 'clone_children', 'cpuset_v2_mode']);

/** Reads `/proc/self/mountinfo`. @throws when no cgroup file system is mounted. */
export function readCgroupLayout(): CgroupLayout {
  return cgroupLayout(readFileSync('/proc/self/mountinfo', 'utf8'), (mount) => {
    try {
      return readFileSync(join(mount, 'cgroup.controllers'), 'utf8');
    } catch {
      return '';
    }
  });
}

export function cgroupLayout(mountInfo: string, controllersOf: (mount: string) => string): CgroupLayout {
  const v1 = new Map<string, string>();
  let v2: string | undefined;
  for (const entry of parseMountInfo(mountInfo)) {
    if (entry.type === 'cgroup2') v2 ??= entry.target;
    if (entry.type !== 'cgroup') continue;
    for (const option of entry.superOptions) {
      if (!V1_OPTIONS.has(option) && !option.startsWith('release_agent=') && !v1.has(option))
        v1.set(option, entry.target);
    }
  }
  if (v1.size === 0 && v2 === undefined) throw new Error('No cgroup file system is mounted at /sys/fs/cgroup');
  const v2Controllers = new Set(v2 === undefined ? [] : controllersOf(v2).trim().split(/\s+/).filter(Boolean));
  const kind = v1.size === 0 ? 'v2' : v2 === undefined ? 'v1' : 'hybrid';
  return { kind, v1, v2, v2Controllers };
}

/** Version that drives a controller on this host; undefined when neither does. */
export function controllerVersion(layout: CgroupLayout, controller: string): 1 | 2 | undefined {
  if (layout.v1.has(controller)) return 1;
  return layout.v2Controllers.has(controller) ? 2 : undefined;
}

/** One cgroup, by its path in every hierarchy. */
export class Cgroup {
  readonly #layout: CgroupLayout;
  /** Path below the hierarchies' roots, without a leading slash. */
  readonly path: string;

  constructor(layout: CgroupLayout, path: string) {
    this.#layout = layout;
    this.path = path;
  }

  /** Folder of the hierarchy that drives `controller`; undefined when none does. */
  folder(controller: string): string | undefined {
    const mount = this.#layout.v1.get(controller) ?? this.#v2For(controller);
    return mount === undefined ? undefined : join(mount, this.path);
  }

  version(controller: string): 1 | 2 | undefined {
    return controllerVersion(this.#layout, controller);
  }

  /** Folders in all hierarchies. */
  folders(): string[] {
    const mounts = new Set(this.#layout.v1.values());
    if (this.#layout.v2 !== undefined) mounts.add(this.#layout.v2);
    return [...mounts].map((mount) => join(mount, this.path));
  }

  exists(): boolean {
    return this.folders().some((folder) => existsSync(folder));
  }

  /**
   * Text of a file; undefined when the controller or the file is not there. Reads at once: the kernel makes these
   * few bytes in microseconds, a trip through the thread pool takes a hundred times as long.
   */
  async read(controller: string, file: string): Promise<string | undefined> {
    const folder = this.folder(controller);
    if (folder === undefined) return undefined;
    try {
      return readFileSync(join(folder, file), 'latin1');
    } catch {
      return undefined;
    }
  }

  /** A number; `max` and absent files are undefined. */
  async readNumber(controller: string, file: string): Promise<number | undefined> {
    const text = (await this.read(controller, file))?.trim();
    return text === undefined || !/^-?\d+$/.test(text) ? undefined : Number(text);
  }

  /** @throws when no hierarchy drives the controller, or the kernel refuses the value. */
  async write(controller: string, file: string, value: string): Promise<void> {
    const folder = this.folder(controller);
    if (folder === undefined) throw new Error(`This host has no cgroup controller "${controller}"`);
    await writeFile(join(folder, file), value);
  }

  /** Stops every process of the tree; resolves when they stand still. */
  async freeze(timeoutMs = 30_000): Promise<void> {
    await this.#setFrozen(true, timeoutMs);
  }

  async thaw(timeoutMs = 30_000): Promise<void> {
    await this.#setFrozen(false, timeoutMs);
  }

  async isFrozen(): Promise<boolean> {
    if (this.#layout.v1.has('freezer')) return (await this.read('freezer', 'freezer.state'))?.trim() === 'FROZEN';
    return /^frozen 1$/m.test((await this.read('freezer', 'cgroup.events')) ?? '');
  }

  /** Pids in this cgroup and all below, of one hierarchy. */
  async processes(): Promise<number[]> {
    const pids = new Set<number>();
    for (const root of this.folders()) {
      for (const folder of [root, ...treeBelow(root)]) {
        const text = await readFile(join(folder, 'cgroup.procs'), 'utf8').catch(() => '');
        for (const line of text.split('\n')) if (line !== '') pids.add(Number(line));
      }
    }
    return [...pids];
  }

  /** Removes the (empty) tree in every hierarchy. Absent = no effect. */
  async remove(): Promise<void> {
    for (const root of this.folders()) {
      for (const folder of treeBelow(root).reverse()) await rmdir(folder).catch(() => undefined);
      await rmdir(root).catch((error: unknown) => {
        if (!existsSync(root)) return;
        throw error;
      });
    }
  }

  /** Removes it in every hierarchy where nothing is in it. Absent = no effect. */
  async removeIfEmpty(): Promise<void> {
    for (const folder of this.folders()) await rmdir(folder).catch(() => undefined);
  }

  async #setFrozen(frozen: boolean, timeoutMs: number): Promise<void> {
    const v1 = this.#layout.v1.has('freezer');
    const deadline = performance.now() + timeoutMs;
    const request = () =>
      v1
        ? this.write('freezer', 'freezer.state', frozen ? 'FROZEN' : 'THAWED')
        : this.write('freezer', 'cgroup.freeze', frozen ? '1' : '0');
    await request();
    for (let pause = 1; (await this.isFrozen()) !== frozen; pause = Math.min(pause * 2, 50)) {
      if (performance.now() > deadline) throw new Error(`cgroup ${this.path} did not ${frozen ? 'freeze' : 'thaw'}`);
      await new Promise((resolve) => setTimeout(resolve, pause));
      await request(); // version 1 gives up on a process that forks meanwhile; asking again settles it
    }
  }

  /** The core files of version 2 (freezer) exist without a controller. */
  #v2For(controller: string): string | undefined {
    if (controller === 'freezer' || controller === '') return this.#layout.v2;
    return this.#layout.v2Controllers.has(controller) ? this.#layout.v2 : undefined;
  }
}

/** Folders below, parents before children. */
function treeBelow(root: string): string[] {
  const found: string[] = [];
  const pending = [root];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    let names: string[];
    try {
      names = readdirSync(folder, { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map((entry) => entry.name);
    } catch {
      continue; // a guest removed it meanwhile
    }
    for (const name of names) {
      found.push(join(folder, name));
      pending.push(join(folder, name));
    }
  }
  return found;
}

/** Names of the cgroups directly below `parent` (empty: the hierarchies' roots) that start with `prefix`. */
export async function cgroupsBelow(layout: CgroupLayout, parent: string, prefix: string): Promise<string[]> {
  const folders = new Cgroup(layout, parent).folders();
  const lists = await Promise.all(folders.map((folder) => readdir(folder).catch(() => [] as string[])));
  return [...new Set(lists.flat().filter((name) => name.startsWith(prefix)))];
}
