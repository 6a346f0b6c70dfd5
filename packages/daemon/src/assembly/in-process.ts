import { join } from 'node:path';
import { silentLog, type Log } from '../core/log.ts';
import { HttpServer } from '../http/http-server.ts';
import type { Caller } from '../services/certificates/caller.ts';
import { MemoryStore } from '../state/memory/memory-store.ts';
export { selfSigned } from '../services/certificates/self-signed.ts';
import { assemble } from './assemble.ts';

export interface InProcessOptions {
  /** Empty folder of the caller. */
  readonly stateDir: string;
  readonly log?: Log;
}

/** A daemon inside the calling process, on a store in memory: for tests of the API without root. */
export interface InProcessDaemon extends AsyncDisposable {
  /** Socket of the administrator. */
  readonly socket: string;
  /** Socket whose peers are this caller. */
  listenAs(caller: Caller): Promise<string>;
}

export async function startInProcess(options: InProcessOptions): Promise<InProcessDaemon> {
  const { stateDir, log = silentLog } = options;
  await using stack = new AsyncDisposableStack();
  const daemon = stack.use(await assemble({ stateDir, log, store: new MemoryStore(), version: '0.0.0' }));
  await daemon.start();
  let sockets = 0;
  const listenAs = async (caller: Caller): Promise<string> => {
    const server = new HttpServer(daemon.door, () => caller);
    const path = join(stateDir, `caller-${sockets++}.socket`);
    await server.listen({ path });
    parts.defer(() => server.close(0));
    return path;
  };
  const parts = stack.move();
  return {
    socket: join(stateDir, 'unix.socket'),
    listenAs,
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}
