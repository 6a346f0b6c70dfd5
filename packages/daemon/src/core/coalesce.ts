interface Lane {
  readonly running: Promise<void>;
  next: Promise<void> | undefined;
}

/**
 * Runs work by key, one at a time; callers that come while it runs share one further run, which starts after it. For
 * work that brings something in line with the state as it is: each caller's run starts after the call.
 */
export class Coalesce {
  readonly #lanes = new Map<string, Lane>();

  run(key: string, work: () => Promise<void>): Promise<void> {
    const lane = this.#lanes.get(key);
    if (lane === undefined) return this.#start(key, work);
    lane.next ??= lane.running
      .catch(() => undefined) // its own callers are told
      .then(() => this.#start(key, work));
    return lane.next;
  }

  #start(key: string, work: () => Promise<void>): Promise<void> {
    const running = work();
    const lane: Lane = { running, next: undefined };
    this.#lanes.set(key, lane);
    const forget = (): void => {
      if (lane.next === undefined && this.#lanes.get(key) === lane) this.#lanes.delete(key);
    };
    running.then(forget, forget);
    return running;
  }
}
