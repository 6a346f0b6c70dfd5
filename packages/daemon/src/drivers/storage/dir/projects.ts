import { errors } from '../../../core/errors.ts';
import { hasProjectQuota, limitProject, projectOf, projectUse, setProject } from '../../../host/project-quota.ts';

/** Ids below are left to the host's own projects, as LXD does. */
const FIRST = 10_000;
const ATTEMPTS = 100;

/** Projects of a pool's folders, where the file system has project quotas; otherwise nothing happens and nothing is known. */
export class FolderProjects {
  readonly #pool: string;
  readonly #newId: () => string;
  #active = false;

  constructor(pool: string, newId: () => string) {
    this.#pool = pool;
    this.#newId = newId;
  }

  /** True when limits hold; `detect` found out. */
  get active(): boolean {
    return this.#active;
  }

  async detect(): Promise<void> {
    this.#active = await hasProjectQuota(this.#pool);
  }

  /** Gives new folders a project together, if the pool has any. */
  async begin(folders: readonly [string, ...string[]]): Promise<void> {
    if (this.#active) await this.#join(folders);
  }

  /** What replaces `from` belongs to its project. */
  async carry(from: string, to: readonly string[]): Promise<void> {
    if (!this.#active) return;
    const project = await projectOf(from);
    if (project === 0) return;
    for (const folder of to) await setProject(folder, project);
  }

  /** The folder `to`, which has a project of its own, gets the limit of `from`, whose place it takes. */
  async succeed(from: string, to: string): Promise<void> {
    if (!this.#active) return;
    const project = await projectOf(from);
    const { limit } = project === 0 ? { limit: undefined } : await projectUse(this.#pool, project);
    if (limit !== undefined) await limitProject(this.#pool, await projectOf(to), limit);
  }

  /** Bytes counted for the folder; undefined when nothing is. */
  async used(folder: string): Promise<number | undefined> {
    if (!this.#active) return undefined;
    const project = await projectOf(folder);
    return project === 0 ? undefined : (await projectUse(this.#pool, project)).used;
  }

  /** Bytes for what the folders, which get one project, hold together. @throws bad-request when more is in use. */
  async limit(name: string, folders: readonly [string, ...string[]], size: number | undefined): Promise<void> {
    if (size === undefined && (await projectOf(folders[0])) === 0) return;
    const project = await this.#join(folders);
    if (size !== undefined) {
      const { used } = await projectUse(this.#pool, project);
      if (used > size)
        throw errors.badRequest(`Cannot limit volume "${name}" to ${size} bytes: ${used} bytes are in use`);
    }
    await limitProject(this.#pool, project, size);
  }

  /** One project for the folders with all that is in them: the first one's, or a new one. */
  async #join([first, ...others]: readonly [string, ...string[]]): Promise<number> {
    let project = await projectOf(first);
    if (project === 0) {
      project = await this.#unused();
      await setProject(first, project);
    }
    for (const folder of others) await setProject(folder, project);
    return project;
  }

  /** A project nothing belongs to yet. */
  async #unused(): Promise<number> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const id = projectId(this.#newId());
      const { used, files, limit } = await projectUse(this.#pool, id);
      if (used === 0 && files === 0 && limit === undefined) return id;
    }
    throw errors.internal(`No project id is free on the file system of "${this.#pool}"`);
  }
}

/** A project id from a random text of hexadecimal digits: 31 bits, above what hosts use themselves. */
export function projectId(random: string): number {
  const value = Number.parseInt(random.slice(0, 8), 16);
  return FIRST + (value % (0x7fff_ffff - FIRST));
}
