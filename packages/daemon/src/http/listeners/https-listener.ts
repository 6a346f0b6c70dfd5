import { errors } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { HttpServer } from '../http-server.ts';
import { formatAddress, parseListenAddress } from './address.ts';

export interface HttpsListenerOptions {
  /** A new HTTPS server in front of the same door. */
  readonly createServer: () => HttpServer;
  readonly log: Log;
}

/** The API over the network, on the address `core.https_address` names at the moment. */
export class HttpsListener implements AsyncDisposable {
  readonly #options: HttpsListenerOptions;
  #current: { readonly address: string; readonly server: HttpServer } | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: HttpsListenerOptions) {
    this.#options = options;
  }

  /** Where it really listens, `host:port`; undefined when it does not. */
  get bound(): { readonly host: string; readonly port: number } | undefined {
    return this.#current?.server.bound;
  }

  /**
   * Listens on `address` from now on; empty stops listening. Connections of the old address end when their request
   * does. @throws bad-request when it cannot be bound; the old address then stays.
   */
  async bind(address: string): Promise<void> {
    const turn = this.#turn.then(() => this.#bind(address));
    this.#turn = turn.catch(() => undefined);
    await turn;
  }

  async #bind(address: string): Promise<void> {
    const old = this.#current;
    if (old?.address === address) return;
    if (address === '') {
      this.#current = undefined;
      this.#retire(old?.server);
      return;
    }
    const where = parseListenAddress(address);
    const server = this.#options.createServer();
    try {
      await server.listen(where.host === undefined ? { port: where.port } : { host: where.host, port: where.port });
    } catch (error) {
      await this.#replace(server, where, error);
    }
    this.#current = { address, server };
    if (old !== undefined && old.server.bound !== undefined) this.#retire(old.server);
    this.#options.log.info('Listening', { address: formatAddress(this.bound?.host ?? '', this.bound?.port ?? 0) });
  }

  /** The new address may overlap the old one (`:8443` and `127.0.0.1:8443`): stop the old one first, come back on failure. */
  async #replace(server: HttpServer, where: { host: string | undefined; port: number }, error: unknown): Promise<void> {
    const old = this.#current;
    const inUse = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
    const target = where.host === undefined ? { port: where.port } : { host: where.host, port: where.port };
    if (!inUse || old === undefined || this.bound?.port !== where.port) throw cannotListen(error);
    const back = this.bound;
    this.#retire(old.server);
    try {
      await server.listen(target);
    } catch (second) {
      const again = this.#options.createServer();
      await again.listen(back);
      this.#current = { address: old.address, server: again };
      throw cannotListen(second);
    }
  }

  #retire(server: HttpServer | undefined): void {
    if (server !== undefined) void server.close(5000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#turn;
    const { server } = this.#current ?? {};
    this.#current = undefined;
    if (server !== undefined) await server.close(1000);
  }
}

function cannotListen(error: unknown): Error {
  const reason = error instanceof Error ? error.message : String(error);
  return errors.badRequest(`Cannot listen on core.https_address: ${reason}`, error);
}
