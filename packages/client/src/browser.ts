import { BaseClient, type BaseClientOptions } from './base-client.ts';
import { BrowserTransport } from './transport/browser-transport.ts';
import { Warnings } from './warnings.ts';

export * from './exports.ts';

/** Where the server is, and how to reach it. */
export interface ClientOptions extends BaseClientOptions {
  /** `https://host[:port]`; default the page's own origin. */
  readonly endpoint?: string;
  /** Milliseconds until an answer must be complete; default none. */
  readonly timeout?: number;
}

/** The client in a browser: over https only, with the certificate the browser holds. */
export class Client extends BaseClient {
  constructor(options: ClientOptions = {}) {
    const origin = (
      options.endpoint ??
      (globalThis as { location?: { origin: string } }).location?.origin ??
      ''
    ).replace(/\/$/, '');
    const warnings = new Warnings(
      (message) => console.warn(message),
      () => undefined,
    );
    super(new BrowserTransport({ origin, timeout: options.timeout }), options, warnings);
  }
}
