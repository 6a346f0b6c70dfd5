import type { Server, ServerEnvironment, ServerPut, ServerUntrusted } from '@keelson/api';
import type { Precondition } from '../../core/precondition.ts';
import type { Caller } from '../certificates/caller.ts';

/** The server itself as the API needs it. */
export interface ServerApi {
  /** The record as JSON text, and its ETag; without rights only what everybody may know. The same object while nothing changed. */
  describe(caller: Caller, project: string): { readonly json: string; readonly etag: readonly unknown[] | undefined };
  /** Replaces all config keys. @throws bad-request naming the key; nothing is changed then. */
  put(caller: Caller, body: ServerPut, precondition: Precondition): Promise<void>;
  /** Sets the given config keys; an empty value unsets one. */
  patch(caller: Caller, body: ServerPut, precondition: Precondition): Promise<void>;
  /** Hardware of the host. */
  resources(): Promise<object>;
}

/** Parts of `environment` that do not change while the daemon runs. */
export type HostFacts = Omit<ServerEnvironment, 'addresses' | 'project'>;

/** What a config key does beyond being stored: `core.https_address` moves the listener. */
export interface ConfigEffect {
  readonly key: string;
  /** False: nothing is applied at daemon start. */
  readonly atStart?: boolean;
  /** Before anything is applied; `config` is all of what is wanted. @throws when the value cannot be. */
  check?(value: string, config: Readonly<Record<string, string>>): Promise<void>;
  /** @throws when the value cannot take effect; the change is then refused as a whole. */
  apply(value: string): Promise<void>;
  /** After the change was stored: there is no way back. */
  settled?(): Promise<void>;
}

export type { Server, ServerUntrusted };
