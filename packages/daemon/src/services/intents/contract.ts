/**
 * A change that spans host effects and records. The intent is stored before the first effect and removed in the
 * transaction that makes the change final; after a crash `recover` hands every intent that is left to its kind's
 * handler, which finishes or undoes it. Handlers must be idempotent.
 */
export interface Intent<T = unknown> {
  readonly id: string;
  /** For example `instance-create`. */
  readonly kind: string;
  readonly data: T;
  readonly startedAt: string;
}

export interface Intents {
  /** Durable when it resolves. */
  begin<T>(kind: string, data: T): Promise<Intent<T>>;
  /** Removes the intent; `writes` that make the change final go into the same transaction. */
  end(intent: Intent, writes?: readonly import('../../state/store.ts').Write[]): Promise<void>;
  /** Registers the handler of a kind; before `recover`. */
  handle<T>(kind: string, handler: (intent: Intent<T>) => Promise<void>): void;
  /** Runs the handlers of everything left, oldest first; an intent whose handler fails stays for the next start and is logged. */
  recover(): Promise<void>;
}
