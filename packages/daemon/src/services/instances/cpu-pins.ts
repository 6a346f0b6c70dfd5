/** Which running guest is pinned to which CPUs. */
export class CpuPins {
  readonly #pins = new Map<string, readonly number[]>();

  of(key: string): readonly number[] | undefined {
    return this.#pins.get(key);
  }

  set(key: string, cpus: readonly number[] | undefined): void {
    if (cpus === undefined) this.#pins.delete(key);
    else this.#pins.set(key, cpus);
  }

  release(key: string): void {
    this.#pins.delete(key);
  }

  /** Guests per CPU id, not counting `except`. */
  load(except: string): ReadonlyMap<number, number> {
    const result = new Map<number, number>();
    for (const [key, cpus] of this.#pins) {
      if (key === except) continue;
      for (const cpu of cpus) result.set(cpu, (result.get(cpu) ?? 0) + 1);
    }
    return result;
  }
}
