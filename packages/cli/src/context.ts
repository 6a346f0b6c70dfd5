import { Client } from '@keelson/client';
import type { Format } from './output/format.ts';
import { Output } from './output/output.ts';
import { findRemote, splitRemote } from './remotes.ts';

export interface GlobalOptions {
  readonly project: string | undefined;
  readonly format: Format;
  /** Overrides every remote: `unix:/path` or `https://host:port`. */
  readonly endpoint: string | undefined;
  readonly quiet: boolean;
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
  target(word: string): { readonly client: Client; readonly name: string; readonly remote: string } {
    const { remote, name } = splitRemote(word);
    return { client: this.clientOf(remote), name, remote };
  }

  /** Client of a remote by name; empty for the default one. @throws UsageError for an unknown one */
  clientOf(remote: string): Client {
    const known = this.#clients.get(remote);
    if (known !== undefined) return known;
    const { project, endpoint } = this.options;
    const scope = project === undefined ? {} : { project };
    const client = new Client({ ...(endpoint === undefined ? findRemote(remote) : { endpoint }), ...scope });
    this.#clients.set(remote, client);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients.values()) await client.close();
  }
}

export { Output };
