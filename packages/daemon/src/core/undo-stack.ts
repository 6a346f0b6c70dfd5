type Undo = () => unknown;

/**
 * Effects of one change, in the order they were made, so that a failure takes them back in reverse.
 *
 * ```ts
 * await using undo = new UndoStack();
 * await mount(path);
 * undo.add(() => unmount(path));
 * …
 * undo.commit(); // nothing is undone any more
 * ```
 *
 * Leaving the scope without `commit()` runs every undo; one that throws does not stop the others, and the
 * first such error is reported to `onError` (the failure that caused the unwinding stays the one thrown).
 */
export class UndoStack implements AsyncDisposable {
  #undos: Undo[] = [];
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void = () => undefined) {
    this.#onError = onError;
  }

  add(undo: Undo): void {
    this.#undos.push(undo);
  }

  commit(): void {
    this.#undos = [];
  }

  async unwind(): Promise<void> {
    const undos = this.#undos.reverse();
    this.#undos = [];
    for (const undo of undos) {
      try {
        await undo();
      } catch (error) {
        this.#onError(error);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.unwind();
  }
}
