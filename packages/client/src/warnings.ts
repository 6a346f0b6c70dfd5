/** Where warnings go; `process.emitWarning` in Node, the console in browsers. */
export type Warn = (message: string) => void;

/**
 * Warns once per text. `KEELSON_WARNINGS=none` silences everything, `always` repeats every one.
 * `mode` is read at each call so that tests and long-lived programs may change it.
 */
export class Warnings {
  readonly #seen = new Set<string>();
  readonly #warn: Warn;
  readonly #mode: () => string | undefined;

  constructor(warn: Warn, mode: () => string | undefined) {
    this.#warn = warn;
    this.#mode = mode;
  }

  warn(message: string): void {
    const mode = this.#mode();
    if (mode === 'none' || (mode !== 'always' && this.#seen.has(message))) return;
    this.#seen.add(message);
    this.#warn(message);
  }
}
