import { Client } from '@keelson/client';
import type { Format } from './output/format.ts';
import { Output } from './output/output.ts';
import { findRemote, remoteOf, splitRemote } from './remotes.ts';

export interface GlobalOptions {
  readonly project: string | undefined;
  readonly format: Format;
  /** Overrides every remote: `unix:/path` or `https://host:port`. */
  readonly endpoint: string | undefined;
  readonly quiet: boolean;
}

/** `remote:name` taken apart. */
export interface Target {
  readonly client: Client;
  readonly name: string;
  readonly remote: string;
}

/** Whether both talk to one server. */
export function sameServer(one: Target, other: Target): boolean {
  return one.client.endpoint === other.client.endpoint;
}

/** What a handler works with. */
export class Context implements AsyncDisposable {
  readonly options: GlobalOptions;
  readonly out: Output;
  /** Aborted on Ctrl-C. */
  readonly signal: AbortSignal;
  readonly #clients = new Map<string, Client>();

  constructor(options: GlobalOptions, out: Output, signal: AbortSignal) {
    this.options = options;
    this.out = out;
    this.signal = signal;
  }

  /** Client of the default remote. */
  get client(): Client {
    return this.clientOf('');
  }

  /** `remote:name` taken apart, with the client of that remote. Names without a remote belong to the default one. */
  target(word: string): Target {
    const { remote, name } = splitRemote(word);
    return { client: this.clientOf(remote), name, remote };
  }

  /**
   * Client of a remote by name; empty for the default one. `project` in place of the one that the options or the remote
   * name. @throws UsageError for an unknown remote
   */
  clientOf(remote: string, project: string | undefined = this.options.project): Client {
    const { endpoint } = this.options;
    const name = endpoint === undefined ? remoteOf(remote).name : '';
    const key = `${name}/${project ?? ''}`;
    const known = this.#clients.get(key);
    if (known !== undefined) return known;
    const scope = project === undefined ? {} : { project };
    const client = new Client({ ...(endpoint === undefined ? findRemote(remote) : { endpoint }), ...scope });
    this.#clients.set(key, client);
    return client;
  }

  /** The same server under another project, where one is named. */
  inProject(target: Target, project: string | undefined): Target {
    return project === undefined ? target : { ...target, client: this.clientOf(target.remote, project) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients.values()) await client.close();
  }
}

export { Output };
