import type { ModelContext, ProgressOptions } from '../model.ts';

/** Something below an object, whose path follows that of the object. */
export abstract class Part {
  protected readonly context: ModelContext;
  readonly #base: () => string;

  /** @internal */
  constructor(context: ModelContext, base: () => string) {
    this.context = context;
    this.#base = base;
  }

  protected path(...parts: readonly string[]): string {
    return [this.#base(), ...parts.map(encodeURIComponent)].join('/');
  }

  /** Sends a change and waits for its end. */
  protected async change(method: string, path: string, json: unknown, options: ProgressOptions): Promise<void> {
    const { connection, operations } = this.context;
    const body = json === undefined ? {} : { json };
    const { operation } = await connection.request(method, path, { ...body, signal: options.signal });
    if (operation !== '') await operations.wait(operation, { signal: options.signal, onProgress: options.onProgress });
  }
}
