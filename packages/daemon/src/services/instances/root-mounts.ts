import { instanceKey } from '../../core/paths.ts';
import { KeyedQueue } from '../../core/keyed-queue.ts';
import type { RootMount } from '../../drivers/storage/contract.ts';
import type { InstanceStorage, RootVolume } from './ports.ts';

/** A root somebody uses; it stays mounted until the last one released it. */
export interface UsedRoot {
  readonly mount: RootMount;
  release(): Promise<void>;
}

/**
 * Who uses the mounted roots of instances: guests, file requests, backups, publishing. Storage mounts a root once and
 * does not count; a root is unmounted here when nobody uses it any more.
 */
export class RootMounts {
  readonly #storage: Pick<InstanceStorage, 'mount' | 'unmount'>;
  /** True while the guest of this root runs. */
  readonly #isRunning: (root: RootVolume) => boolean;
  readonly #queue = new KeyedQueue();
  readonly #users = new Map<string, number>();
  /** Roots a guest has, or is about to get. */
  readonly #held = new Set<string>();

  constructor(storage: Pick<InstanceStorage, 'mount' | 'unmount'>, isRunning: (root: RootVolume) => boolean) {
    this.#storage = storage;
    this.#isRunning = isRunning;
  }

  /** For a while. */
  async use(root: RootVolume): Promise<UsedRoot> {
    const key = keyOf(root);
    const mount = await this.#queue.run({ exclusive: [key] }, async () => {
      const mounted = await this.#storage.mount(root);
      this.#users.set(key, (this.#users.get(key) ?? 0) + 1);
      return mounted;
    });
    let released = false;
    const release = async (): Promise<void> => {
      if (released) return;
      released = true;
      await this.#queue.run({ exclusive: [key] }, async () => {
        const left = (this.#users.get(key) ?? 1) - 1;
        if (left > 0) this.#users.set(key, left);
        else this.#users.delete(key);
        if (left === 0 && !this.#held.has(key) && !this.#isRunning(root)) await this.#storage.unmount(root);
      });
    };
    return { mount, release };
  }

  /** For a guest, until `letGo`. */
  hold(root: RootVolume): Promise<RootMount> {
    return this.#queue.run({ exclusive: [keyOf(root)] }, async () => {
      const mount = await this.#storage.mount(root);
      this.#held.add(keyOf(root));
      return mount;
    });
  }

  /** The guest ended, or never started. Idempotent. */
  letGo(root: RootVolume): Promise<void> {
    const key = keyOf(root);
    return this.#queue.run({ exclusive: [key] }, async () => {
      this.#held.delete(key);
      if (!this.#users.has(key)) await this.#storage.unmount(root);
    });
  }
}

function keyOf(root: RootVolume): string {
  return `${root.pool}/${instanceKey(root.project, root.instance)}`;
}
