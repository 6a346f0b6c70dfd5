import type { ServerEnvironment, ServerPut } from '@keelson/api';
import type { Precondition } from '../../core/precondition.ts';
import { isAdmin, type Caller } from '../certificates/caller.ts';
import type { Events } from '../events/contract.ts';
import type { HostFacts, ServerApi } from './contract.ts';
import type { ServerConfig } from './server-config.ts';

/** So many answers are kept: the request names the project in them as it likes. */
const TEXTS = 100;

export interface ServerServiceOptions {
  readonly config: ServerConfig;
  readonly facts: HostFacts;
  readonly extensions: readonly string[];
  /** Addresses the API listens on over HTTPS, `host:port`. */
  readonly addresses: () => readonly string[];
  readonly readResources: () => Promise<object>;
  readonly events: Events;
}

/** `GET /1.0`: what this server is, can do and is told to do. */
export class ServerService implements ServerApi {
  readonly #options: ServerServiceOptions;
  readonly #texts = new Map<string, { stamp: string; json: string; etag: readonly unknown[] }>();

  readonly #forStrangers: { readonly json: string; readonly etag: undefined };

  constructor(options: ServerServiceOptions) {
    this.#options = options;
    this.#forStrangers = { json: JSON.stringify(this.#untrusted('untrusted')), etag: undefined };
  }

  describe(caller: Caller, project: string): { json: string; etag: readonly unknown[] | undefined } {
    if (caller.kind === 'untrusted' || caller.kind === 'metrics') return this.#forStrangers;
    const addresses = this.#options.addresses();
    const stamp = `${this.#options.config.revision}|${addresses.join()}`;
    const key = `${isAdmin(caller)}|${project}`;
    const known = this.#texts.get(key);
    if (known?.stamp === stamp) return known;
    const fresh = { stamp, ...this.#render(caller, { ...this.#options.facts, addresses: [...addresses], project }) };
    if (this.#texts.size >= TEXTS) this.#texts.clear();
    this.#texts.set(key, fresh);
    return fresh;
  }

  async put(caller: Caller, body: ServerPut, precondition: Precondition): Promise<void> {
    await this.#change(caller, body, { merge: false, precondition });
  }

  async patch(caller: Caller, body: ServerPut, precondition: Precondition): Promise<void> {
    await this.#change(caller, body, { merge: true, precondition });
  }

  resources(): Promise<object> {
    return this.#options.readResources();
  }

  async #change(caller: Caller, body: ServerPut, how: { merge: boolean; precondition: Precondition }): Promise<void> {
    await this.#options.config.change(body.config ?? {}, how.merge, how.precondition);
    const { requestor } = caller;
    this.#options.events.lifecycle('default', { action: 'config-updated', source: '/1.0', requestor });
  }

  /** A restricted caller sees no configuration: it may hold other people's secrets. */
  #render(caller: Caller, environment: ServerEnvironment): { json: string; etag: readonly unknown[] } {
    const config = isAdmin(caller) ? this.#options.config.shown : {};
    return { json: JSON.stringify({ config, ...this.#untrusted('trusted'), environment }), etag: [config] };
  }

  #untrusted(auth: 'trusted' | 'untrusted'): object {
    return {
      api_extensions: this.#options.extensions,
      api_status: 'stable',
      api_version: '1.0',
      auth,
      public: false,
      auth_methods: ['tls'],
    };
  }
}
