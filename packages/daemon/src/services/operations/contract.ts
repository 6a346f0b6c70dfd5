import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';

export type OperationClass = 'task' | 'websocket' | 'token';

/** What a running operation may use. */
export interface OperationContext {
  readonly id: string;
  /** Aborted when the operation is cancelled or the daemon stops. */
  readonly signal: AbortSignal;
  /** Merges into the record's metadata and sends an operation event (at most ~10 a second reach the wire). */
  update(metadata: Readonly<Record<string, unknown>>): void;
  /**
   * LXD's progress keys: `<stage>_progress` text, which begins with `label` when there is one, and the structured
   * `progress` object. The speed of bytes is that since the stage began, unless it is given: 0 bytes say that it begins, and
   * nothing else.
   */
  progress(
    stage: string,
    progress: {
      readonly bytes?: number;
      readonly percent?: number;
      readonly bytesPerSecond?: number;
      readonly label?: string;
    },
  ): void;
}

export interface OperationSpec {
  readonly class: OperationClass;
  readonly project: string;
  readonly description: string;
  /** noun → URLs as LXD shows them, for example `{ instances: ['/1.0/instances/c1'] }`. */
  readonly resources: Readonly<Record<string, readonly string[]>>;
  /** Keys held exclusively while it runs, such as `instance/default/c1`; a held key makes `start` reject with LXD's "busy" text. */
  readonly locks?: readonly string[];
  /** Keys held together with others that share them; the work waits while someone has one alone. */
  readonly shared?: readonly string[];
  /** Verb for the "busy" text, such as `start`; by default from the first word of the description. */
  readonly action?: string;
  /** Default: tokens only. A cancelled operation ends as Cancelled when `run` rejects; one that finishes all the same is Success. */
  readonly mayCancel?: boolean;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Resolves with metadata to merge at the end. */
  run(context: OperationContext): Promise<Readonly<Record<string, unknown>> | void>;
  /** Class websocket: called for each connection whose secret matched one of `secrets`. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** Where the creator finds the secrets in the started record: `metadata.fds` (default; exec, console) or `metadata` itself (migration, tokens). */
  readonly secretsAs?: 'fds' | 'metadata';
  connect?(name: string, socket: WebSocket, head: Duplex | undefined): void;
}

export interface OperationRecord {
  readonly id: string;
  readonly class: OperationClass;
  readonly description: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly status: string;
  readonly status_code: number;
  readonly resources: Readonly<Record<string, readonly string[]>> | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly may_cancel: boolean;
  readonly err: string;
  readonly location: string;
}

export interface StartedOperation {
  /** As it stood when started; holds the secrets (shown once, to the creator). */
  readonly record: OperationRecord;
  /** Resolves with the final record when it ends, well or not. Never rejects. */
  readonly done: Promise<OperationRecord>;
}

/** Background operations; records stay readable for a while after the end. */
export interface Operations {
  /** Starts at once; waits for `exclusive` work that has a lock. @throws bad-request with LXD's "busy" text when an operation holds one. */
  start(spec: OperationSpec): StartedOperation;
  get(id: string, project?: string): OperationRecord | undefined;
  list(project?: string): readonly OperationRecord[];
  /** Resolves with the record when it ended or after `timeoutSeconds` (-1: no limit; the record may then still be running). */
  wait(id: string, timeoutSeconds: number, signal?: AbortSignal): Promise<OperationRecord | undefined>;
  cancel(id: string): Promise<void>;
  /** Whether `connect` would take a socket that brings this secret. */
  accepts(id: string, secret: string): boolean;
  /** Hands a websocket to the operation whose secret it brought. False: no such operation or secret. */
  connect(id: string, secret: string, socket: WebSocket): boolean;
  /**
   * Runs `work` alone among all operations and callers that hold one of `keys`; waits its turn. For internal short work;
   * never from within an operation that holds one of them: it would wait for itself.
   */
  exclusive<T>(keys: readonly string[], work: () => Promise<T>): Promise<T>;
}
