import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { close, open, writeFile } from 'node:fs';
import { promisify } from 'node:util';
import { COMMAND_ENVIRONMENT } from './run.ts';

/** Ids `from … from+size-1` as stored on disk show up as `to … to+size-1`. */
export interface IdMapping {
  readonly from: number;
  readonly to: number;
  readonly size: number;
}

/**
 * User namespaces for idmapped mounts. A mapping's namespace is made once and kept as a file descriptor;
 * no process stays behind it.
 */
export class UserNamespaces implements AsyncDisposable {
  readonly #cache = new Map<string, Promise<number>>();

  /** File descriptor of a namespace with this mapping; owned by this object. */
  get(mapping: IdMapping): Promise<number> {
    const key = `${mapping.from}:${mapping.to}:${mapping.size}`;
    let found = this.#cache.get(key);
    if (found === undefined) {
      found = createNamespace(mapping);
      found.catch(() => this.#cache.delete(key));
      this.#cache.set(key, found);
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const made = [...this.#cache.values()];
    this.#cache.clear();
    for (const result of await Promise.allSettled(made)) {
      if (result.status === 'fulfilled') await promisify(close)(result.value);
    }
  }
}

async function createNamespace(mapping: IdMapping): Promise<number> {
  // cat answers only after unshare(2): its echo says that the namespace exists.
  const child = spawn('unshare', ['--user', 'cat'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { ...COMMAND_ENVIRONMENT },
  });
  const exited = once(child, 'exit');
  exited.catch(() => undefined);
  try {
    child.stdin.on('error', () => undefined);
    child.stdin.write('\n');
    const ready = await Promise.race([once(child.stdout, 'data').then(() => true), exited.then(() => false)]);
    if (!ready || child.pid === undefined) throw new Error('cannot create a user namespace');
    const line = `${mapping.from} ${mapping.to} ${mapping.size}\n`;
    await promisify(writeFile)(`/proc/${child.pid}/uid_map`, line);
    await promisify(writeFile)(`/proc/${child.pid}/gid_map`, line);
    return await promisify(open)(`/proc/${child.pid}/ns/user`, 'r');
  } finally {
    child.stdin.end();
    await exited.catch(() => undefined);
  }
}
