import { BaseClient, type BaseClientOptions } from './base-client.ts';
import {
  type Certificate,
  defaultCertificate,
  findSocket,
  parseEndpoint,
  readCertificate,
  readPem,
} from './transport/endpoint.ts';
import { NodeTransport } from './transport/node-transport.ts';
import { Warnings } from './warnings.ts';

/** Where the server is, and how to reach it. */
export interface ClientOptions extends BaseClientOptions {
  /**
   * `unix:/path`, `http+unix:///path` or `https://host[:port]`. Default: the first socket found of `$KEELSON_DIR`,
   * `/var/lib/keelson`, `$LXD_DIR`, and LXD's and Incus's own places.
   */
  readonly endpoint?: string;
  /** Client certificate, as PEM or paths. Default: the one in keelson's configuration folder, then lxc's. */
  readonly cert?: Certificate;
  /** true checks the server with the system's authorities (default), false does not; PEM or a path names an authority or pins the server's own certificate. */
  readonly verify?: boolean | string;
  /** Milliseconds the server may stay silent before and within an answer; default none. */
  readonly timeout?: number;
}

/** The way in: managers for every resource, low-level access, events. Everything is optional. */
export class Client extends BaseClient {
  readonly #certificate: { readonly cert: string; readonly key: string } | undefined;

  /** @throws ClientConnectionFailed when no endpoint is given and none is found, or it is none */
  constructor(options: ClientOptions = {}) {
    const endpoint =
      options.endpoint === undefined ? parseEndpoint(`unix:${findSocket()}`) : parseEndpoint(options.endpoint);
    const given = options.cert === undefined ? undefined : readCertificate(options.cert);
    const certificate = endpoint.kind === 'https' ? (given ?? defaultCertificate()) : undefined;
    const { verify = true, timeout } = options;
    const check = typeof verify === 'string' ? readPem(verify, 'server certificate') : verify;
    const warnings = new Warnings(
      (message) => process.emitWarning(message, 'KeelsonWarning'),
      () => process.env['KEELSON_WARNINGS'],
    );
    super(new NodeTransport({ endpoint, certificate, verify: check, timeout }), options, warnings);
    this.#certificate = certificate;
  }

  /** PEM of the certificate this client presents. */
  get certificate(): string | undefined {
    return this.#certificate?.cert;
  }
}
