import { chmod, chown, rename, rm } from 'node:fs/promises';
import type { HttpServer } from '../http-server.ts';

export interface UnixListenerOptions {
  readonly server: HttpServer;
  readonly path: string;
  /** Group that may use the socket; undefined leaves it to root. */
  readonly gid: number | undefined;
}

/** The local API: whoever may open the socket (mode 0660) is administrator. */
export class UnixListener implements AsyncDisposable {
  readonly #options: UnixListenerOptions;

  constructor(options: UnixListenerOptions) {
    this.#options = options;
  }

  /** Appears under its path only when it answers and has its mode, so its existence means ready. */
  async start(): Promise<void> {
    const { server, path, gid } = this.#options;
    const early = `${path}.new`;
    await rm(early, { force: true });
    await server.listen({ path: early });
    if (gid !== undefined) await chown(early, 0, gid);
    await chmod(early, 0o660);
    await rename(early, path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#options.path, { force: true });
    await this.#options.server.close(1000);
  }
}
