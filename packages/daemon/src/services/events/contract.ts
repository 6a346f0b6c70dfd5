export type EventType = 'lifecycle' | 'operation' | 'logging';

export interface Event {
  readonly type: EventType;
  /** RFC 3339 with nanoseconds as Go prints it. */
  readonly timestamp: string;
  readonly metadata: unknown;
  readonly project: string;
  readonly location: string;
  /** Grows by one per event while the daemon runs, for replay (`?since=`). */
  readonly sequence: number;
}

export interface Requestor {
  readonly username: string;
  readonly protocol: 'unix' | 'tls' | '';
  readonly address: string;
}

export interface Lifecycle {
  /** LXD's action name, for example `instance-created`. */
  readonly action: string;
  /** URL of the object, for example `/1.0/instances/c1`. */
  readonly source: string;
  readonly context?: Readonly<Record<string, unknown>>;
  readonly requestor?: Requestor;
}

export interface Events {
  lifecycle(project: string, event: Lifecycle): void;
  operation(project: string, record: unknown): void;
  logging(metadata: unknown): void;
  /** Called for every event after the call; `since` replays the kept ones with a larger sequence first. */
  subscribe(
    listener: (event: Event) => void,
    options?: { readonly types?: readonly EventType[]; readonly project?: string; readonly since?: number },
  ): () => void;
}
