interface Cached<T> {
  readonly value: Promise<T>;
  /** `now()` at which a new caller computes again; infinite while it is being computed. */
  expires: number;
}

/**
 * Remembers results of slow work by key for a while. Callers that come while it runs share it; a failure is told to
 * them and not remembered.
 */
export class AsyncCache<T> {
  readonly #ttl: number;
  readonly #now: () => number;
  readonly #maxEntries: number;
  readonly #entries = new Map<string, Cached<T>>();

  /** `ttl` in milliseconds of `now`, counted from the end of the work. */
  constructor(options: { readonly ttl: number; readonly now?: () => number; readonly maxEntries?: number }) {
    this.#ttl = options.ttl;
    this.#now = options.now ?? (() => performance.now());
    this.#maxEntries = options.maxEntries ?? 10_000;
  }

  get(key: string, compute: () => Promise<T>): Promise<T> {
    const known = this.#entries.get(key);
    if (known !== undefined && this.#now() < known.expires) return known.value;
    const cached: Cached<T> = { value: Promise.resolve().then(compute), expires: Infinity };
    this.#entries.delete(key);
    this.#entries.set(key, cached);
    this.#trim();
    cached.value.then(
      () => (cached.expires = this.#now() + this.#ttl),
      () => this.#drop(key, cached),
    );
    return cached.value;
  }

  /** The next `get` computes again; without a key, every one. Work that runs is not stopped. */
  forget(key?: string): void {
    if (key === undefined) this.#entries.clear();
    else this.#entries.delete(key);
  }

  #drop(key: string, cached: Cached<T>): void {
    if (this.#entries.get(key) === cached) this.#entries.delete(key);
  }

  #trim(): void {
    for (const key of this.#entries.keys()) {
      if (this.#entries.size <= this.#maxEntries) return;
      this.#entries.delete(key);
    }
  }
}
