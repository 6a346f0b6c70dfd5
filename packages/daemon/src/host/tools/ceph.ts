import { run, type RunResult } from '../run.ts';

/** How a Ceph cluster is reached. */
export interface CephAccess {
  /** Its configuration; the keyring is where that says, or beside it. */
  readonly conf: string;
  /** Name without `client.`. */
  readonly user: string;
}

/** Seconds until a client gives up a cluster that does not answer. */
export const CONNECT_TIMEOUT = 10;

const WHOLE_COMMAND = 60_000;

/** Arguments every client takes: whom it is, and that it gives up. */
export function clientArguments({ conf, user }: CephAccess): string[] {
  return ['--conf', conf, '--id', user, `--client_mount_timeout=${CONNECT_TIMEOUT}`];
}

/** Runs one command of the cluster's monitors. @throws CommandError; a dead cluster is one after some seconds. */
export async function ceph(access: CephAccess, args: readonly string[]): Promise<unknown> {
  const common = ['--conf', access.conf, '--id', access.user, '--connect-timeout', String(CONNECT_TIMEOUT)];
  const { stdout }: RunResult = await run('ceph', [...common, '--format', 'json', ...args], { timeout: WHOLE_COMMAND });
  return stdout.trim() === '' ? undefined : JSON.parse(stdout);
}

/** Version of Ceph's programs; undefined when they are not there. */
export async function cephVersion(program: 'rbd' | 'ceph-fuse' = 'rbd'): Promise<string | undefined> {
  try {
    const { stdout } = await run(program, ['--version']);
    return /version (\S+)/.exec(stdout)?.[1];
  } catch {
    return undefined;
  }
}
