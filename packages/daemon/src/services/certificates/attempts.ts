import { errors } from '../../core/errors.ts';

const WINDOW_MS = 60_000;
const MAX_FAILURES = 10;
const MAX_ADDRESSES = 1024;

/** Counts failed passwords per address: after ten in a minute the address has to wait. */
export class FailedAttempts {
  readonly #now: () => number;
  readonly #failures = new Map<string, number[]>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** @throws unavailable when the address must wait. */
  check(address: string): void {
    if (this.#recent(address).length >= MAX_FAILURES) {
      throw errors.unavailable('Too many failed attempts to add a certificate; try again in a minute');
    }
  }

  /** A failure counts before the password is looked at, so that parallel guesses count too; a success takes it back. */
  begin(address: string): { succeeded(): void } {
    const at = this.#now();
    this.#failures.set(address, [...this.#recent(address), at]);
    if (this.#failures.size > MAX_ADDRESSES) this.#forgetOldest();
    return { succeeded: () => void this.#failures.delete(address) };
  }

  #recent(address: string): number[] {
    const since = this.#now() - WINDOW_MS;
    return (this.#failures.get(address) ?? []).filter((at) => at > since);
  }

  #forgetOldest(): void {
    const [oldest] = this.#failures.keys();
    if (oldest !== undefined) this.#failures.delete(oldest);
  }
}
