import { errors } from '../core/errors.ts';
import type { Lease } from './store.ts';

/** Leases of a store that only this process can open: each lasts until it or the store is disposed. */
export class LocalLeases {
  readonly #newId: () => string;
  readonly #held = new Map<string, AbortController>();

  constructor(newId: () => string) {
    this.#newId = newId;
  }

  /** @throws bad-request when `ttlMs` is not positive. */
  grant(ttlMs: number): Lease {
    if (!(ttlMs > 0)) {
      throw errors.badRequest(`Invalid lease time ${ttlMs} ms`);
    }
    const id = this.#newId();
    const controller = new AbortController();
    this.#held.set(id, controller);
    return { id, lost: controller.signal, [Symbol.asyncDispose]: async () => this.#lose(id) };
  }

  loseAll(): void {
    for (const id of this.#held.keys()) {
      this.#lose(id);
    }
  }

  #lose(id: string): void {
    const controller = this.#held.get(id);
    this.#held.delete(id);
    controller?.abort();
  }
}
