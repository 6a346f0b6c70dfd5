/** Which keys a piece of work needs. A key in both lists is taken exclusively. */
export interface LockRequest {
  readonly exclusive?: readonly string[];
  readonly shared?: readonly string[];
  /** Gives up waiting; the reason is what `acquire` and `run` reject with. Work that runs is not stopped. */
  readonly signal?: AbortSignal | undefined;
}

interface Waiter {
  readonly shared: boolean;
  readonly grant: () => void;
}

interface Lane {
  /** Shared holders, or -1 for an exclusive one. */
  holders: number;
  readonly waiting: Waiter[];
}

/**
 * Locks by key, first come first served: who asks for a key waits behind everyone who asked before, also when only
 * shared access is wanted. Several keys are taken one by one in the order of their names, so that requests cannot
 * wait for each other in a circle. Work must not ask for further keys of the same queue while it holds one.
 */
export class KeyedQueue {
  readonly #lanes = new Map<string, Lane>();

  /** Runs `work` when all keys are held; releases them however it ends. */
  async run<T>(request: LockRequest, work: () => Promise<T> | T): Promise<T> {
    using _held = await this.acquire(request);
    return await work();
  }

  /** Rejects with the signal's reason when it aborts before all keys are held; then none is. */
  async acquire(request: LockRequest): Promise<Disposable> {
    request.signal?.throwIfAborted();
    const held: [string, boolean][] = [];
    try {
      for (const [key, shared] of inOrder(request)) {
        await this.#take(key, shared, request.signal);
        held.push([key, shared]);
      }
    } catch (error) {
      this.#releaseAll(held);
      throw error;
    }
    return this.#handle(held);
  }

  /** All keys at once without waiting, or undefined. */
  tryAcquire(request: Omit<LockRequest, 'signal'>): Disposable | undefined {
    const wanted = inOrder(request);
    if (!wanted.every(([key, shared]) => this.#isFree(key, shared))) {
      return undefined;
    }
    for (const [key, shared] of wanted) {
      this.#hold(this.#lane(key), shared);
    }
    return this.#handle(wanted);
  }

  /** True while anyone holds the key. */
  isHeld(key: string): boolean {
    return this.#lanes.has(key);
  }

  #isFree(key: string, shared: boolean): boolean {
    const lane = this.#lanes.get(key);
    return lane === undefined || (shared && lane.holders > 0 && lane.waiting.length === 0);
  }

  #lane(key: string): Lane {
    let lane = this.#lanes.get(key);
    if (lane === undefined) {
      lane = { holders: 0, waiting: [] };
      this.#lanes.set(key, lane);
    }
    return lane;
  }

  #hold(lane: Lane, shared: boolean): void {
    lane.holders = shared ? lane.holders + 1 : -1;
  }

  #take(key: string, shared: boolean, signal: AbortSignal | undefined): Promise<void> {
    if (this.#isFree(key, shared)) {
      this.#hold(this.#lane(key), shared);
      return Promise.resolve();
    }
    signal?.throwIfAborted();
    const lane = this.#lane(key);
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        shared,
        grant: () => {
          signal?.removeEventListener('abort', giveUp);
          resolve();
        },
      };
      const giveUp = () => {
        lane.waiting.splice(lane.waiting.indexOf(waiter), 1);
        // Those behind an exclusive waiter may now join the shared holders.
        this.#grantNext(key, lane);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', giveUp, { once: true });
      lane.waiting.push(waiter);
    });
  }

  #handle(held: readonly [string, boolean][]): Disposable {
    let released = false;
    return {
      [Symbol.dispose]: () => {
        if (!released) {
          released = true;
          this.#releaseAll(held);
        }
      },
    };
  }

  #releaseAll(held: readonly [string, boolean][]): void {
    for (const [key, shared] of held.toReversed()) {
      const lane = this.#lane(key);
      lane.holders = shared ? lane.holders - 1 : 0;
      this.#grantNext(key, lane);
    }
  }

  #grantNext(key: string, lane: Lane): void {
    for (let next = lane.waiting[0]; next !== undefined; next = lane.waiting[0]) {
      const fits = lane.holders === 0 || (next.shared && lane.holders > 0);
      if (!fits) {
        return;
      }
      lane.waiting.shift();
      this.#hold(lane, next.shared);
      next.grant();
    }
    if (lane.holders === 0) {
      this.#lanes.delete(key);
    }
  }
}

function inOrder(request: LockRequest): [string, boolean][] {
  const keys = new Map<string, boolean>();
  for (const key of request.shared ?? []) {
    keys.set(key, true);
  }
  for (const key of request.exclusive ?? []) {
    keys.set(key, false);
  }
  return [...keys].sort(([a], [b]) => (a < b ? -1 : 1));
}
