/** A collection as the API shows it. Whoever makes it keeps the texts cached; see `JsonCache`. */
export interface RecordList {
  /** Names the content: two lists of one route with the same version answer the same bytes. */
  readonly version: string;
  /** URL paths of the members, in the order they are shown. */
  urls(): readonly string[];
  /** JSON text of each member, in the same order. */
  json(): readonly string[];
  /** The members themselves, in the same order; a `filter` looks at them. */
  values(): readonly object[];
}

/** JSON texts of records, rebuilt only when a record's stamp changed. */
export class JsonCache<T extends object> {
  readonly #texts = new Map<string, { stamp: string | number; value: T; text: string }>();

  /** The record and its text; `make` runs when `stamp` differs from the last one under `key`. */
  get(key: string, stamp: string | number, make: () => T): { readonly value: T; readonly text: string } {
    const known = this.#texts.get(key);
    if (known !== undefined && known.stamp === stamp) return known;
    const value = make();
    const fresh = { stamp, value, text: JSON.stringify(value) };
    this.#texts.set(key, fresh);
    return fresh;
  }

  /** Forgets a record that is gone. */
  delete(key: string): void {
    this.#texts.delete(key);
  }
}
