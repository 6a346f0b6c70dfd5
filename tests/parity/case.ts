/** Names that differ between the two servers, because they share one host. */
export interface Names {
  readonly bridge: string;
  readonly address: string;
  readonly fingerprint: string;
  /** Folder that exists, for disk devices. */
  readonly folder: string;
  /** Backup of a volume `kept` with one snapshot, as LXD writes it. */
  readonly backup: Uint8Array;
  /** `https://<address>` where the server may listen, and its certificate. */
  readonly https: string;
  readonly certificate: string;
  /** The operation that the last case with `begins` started. */
  begun: Begun;
}

/** An operation that waits for another server to connect. */
export interface Begun {
  /** Its whole URL. */
  readonly operation: string;
  readonly secrets: Readonly<Record<string, string>>;
}

/** One request that both servers get, in order. */
export interface Case {
  /** Unique; the differences table refers to it. */
  readonly name: string;
  readonly method: string;
  path(names: Names): string;
  body?(names: Names): unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Compare only status and error, not the record's structure. */
  readonly loose?: boolean;
  /**
   * The operation waits for sockets: its first record is compared. `cancel`: it is cancelled then, and how it ended is
   * compared; `leave`: a later case connects, or it ends by itself.
   */
  readonly begins?: 'cancel' | 'leave';
  /** Part of the record whose values, not only their structure, must agree. */
  values?(record: unknown): unknown;
}

type Text = string | ((names: Names) => string);

/** A case; text stands for a path that does not depend on the server. */
export function one(name: string, method: string, path: Text, body?: unknown, more: Partial<Case> = {}): Case {
  return {
    name,
    method,
    path: typeof path === 'string' ? () => path : path,
    ...(body === undefined
      ? {}
      : { body: typeof body === 'function' ? (body as (names: Names) => unknown) : () => body }),
    ...more,
  };
}

/** Config a client sets, without what servers draw at random, and devices. */
export const settings = {
  values(record: unknown): unknown {
    const { config = {}, devices = {} } = record as { config?: Record<string, string>; devices?: object };
    return [Object.entries(config).filter(([key]) => key.startsWith('user.')), devices];
  },
};

/** The disk of an instance's root. */
export const root = { type: 'disk', path: '/', pool: 'p1' };
/** The body of an instance without an image. */
export const none = (name: string, more: object = {}): object => ({
  name,
  source: { type: 'none' },
  profiles: [],
  devices: { root },
  ...more,
});

/** Names that tell what they stand for. */
export const names: Names = {
  bridge: '<bridge>',
  address: '<address>',
  fingerprint: '<fingerprint>',
  folder: '<folder>',
  backup: new Uint8Array(),
  https: '<https>',
  certificate: '<certificate>',
  begun: { operation: '<operation>', secrets: {} },
};
