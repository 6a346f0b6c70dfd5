/** A folder that many use at a time, and that one may take away from all of them to put another in its place. */
export class FolderGate {
  #prepare: () => Promise<void> = () => Promise.resolve();
  #inside = 0;
  #closed: Promise<void> | undefined;
  #left: (() => void) | undefined;

  /** What makes the folder usable; it is called before every use. */
  preparedBy(prepare: () => Promise<void>): void {
    this.#prepare = prepare;
  }

  /** The folder stays in its place until disposed of; waits while it is closed. @throws what keeps it from being usable. */
  async enter(): Promise<Disposable> {
    while (this.#closed !== undefined) await this.#closed;
    this.#inside += 1;
    let gone = false;
    const leave = (): void => {
      if (gone) return;
      gone = true;
      this.#inside -= 1;
      if (this.#inside === 0) this.#left?.();
    };
    try {
      await this.#prepare();
    } catch (error) {
      leave();
      throw error;
    }
    return { [Symbol.dispose]: leave };
  }

  /** Nobody is inside or enters until disposed of; undefined when somebody stayed for `patience` milliseconds. */
  async close(patience: number): Promise<Disposable | undefined> {
    while (this.#closed !== undefined) await this.#closed;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#closed = promise;
    const open = (): void => {
      this.#closed = undefined;
      resolve();
    };
    if (this.#inside > 0 && !(await this.#empty(patience))) {
      open();
      return undefined;
    }
    return { [Symbol.dispose]: open };
  }

  #empty(patience: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => done(false), patience);
      const done = (empty: boolean): void => {
        clearTimeout(timer);
        this.#left = undefined;
        resolve(empty);
      };
      this.#left = () => done(true);
    });
  }
}
