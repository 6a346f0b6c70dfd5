import { startInProcess as startIn, type InProcessDaemon, type Log } from '@keelson/daemon';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { request, type Answer, type RequestOptions } from './request.ts';

type Caller = Parameters<InProcessDaemon['listenAs']>[0];

/** A kind of caller; a restricted one may use the projects given. */
export type CallerKind = Caller['kind'];

/** A daemon in this process, on a store in memory: no root needed. */
export class TestApi implements AsyncDisposable {
  readonly stateDir: string;
  readonly #daemon: InProcessDaemon;
  readonly #sockets = new Map<string, Promise<string>>();

  constructor(daemon: InProcessDaemon, stateDir: string) {
    this.#daemon = daemon;
    this.stateDir = stateDir;
  }

  get socket(): string {
    return this.#daemon.socket;
  }

  /** A request as administrator. */
  request<T = unknown>(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Answer<T>> {
    return request<T>(this.socket, method, path, body, options);
  }

  /** Socket whose peers are a caller of this kind. */
  as(kind: CallerKind, projects: readonly string[] = [], extra: Partial<Caller> = {}): Promise<string> {
    const key = JSON.stringify([kind, projects, extra]);
    let socket = this.#sockets.get(key);
    if (socket === undefined) {
      socket = this.#daemon.listenAs({
        kind,
        projects,
        requestor: { username: kind, protocol: kind === 'unix' ? 'unix' : 'tls', address: '192.0.2.1:1000' },
        certificate: undefined,
        fingerprint: '',
        ...extra,
      });
      this.#sockets.set(key, socket);
    }
    return socket;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon[Symbol.asyncDispose]();
    rmSync(this.stateDir, { recursive: true, force: true });
  }
}

export async function startInProcess(options: { readonly log?: Log } = {}): Promise<TestApi> {
  const stateDir = mkdtempSync(join(tmpdir(), 'keelson-api-'));
  return new TestApi(await startIn({ stateDir, ...options }), stateDir);
}
