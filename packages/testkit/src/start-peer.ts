import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command } from './command.ts';
import { incusTree } from './incus-tree.ts';
import { removeLeftovers } from './leftovers.ts';
import { until } from './poll.ts';
import { request, type Answer, type RequestOptions } from './request.ts';

/** A server of another project, to compare with. */
export interface TestPeer extends AsyncDisposable {
  readonly dir: string;
  readonly socket: string;
  request<T = unknown>(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Answer<T>>;
}

/** How to start a peer: program, arguments, and what ends it. */
interface PeerCommand {
  readonly name: string;
  /** State folder; the log and whatever else the start needs are beside it in `base`. */
  readonly dir: string;
  readonly base: string;
  readonly argv: readonly [program: string, ...args: string[]];
  readonly env: Readonly<Record<string, string>>;
  /** Asks the running child to end; default SIGTERM. */
  readonly stop?: (pid: number) => void;
}

/** Starts Debian's LXD in a temp folder of its own, with nothing configured; dispose stops it and removes what it made. */
export async function startLxd(options: { readonly env?: Readonly<Record<string, string>> } = {}): Promise<TestPeer> {
  const { base, dir } = await stateFolder('lxd');
  const env = { ...options.env, LXD_DIR: dir };
  return startPeer({ name: 'lxd', dir, base, argv: ['lxd', '--group', 'root'], env });
}

/**
 * Makes the root of a Debian tree without changing it, and runs Incus there. The state folder has the same path inside
 * and outside. A process in a chroot may not create user namespaces, hence `pivot_root`.
 */
const INCUS_SCRIPT = `
set -e
mount --make-rprivate /
mkdir -p "$BASE/upper" "$BASE/work" "$BASE/root"
mount -t overlay overlay -o "lowerdir=$TREE,upperdir=$BASE/upper,workdir=$BASE/work" "$BASE/root"
cd "$BASE/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mkdir -p oldroot ".$INCUS_DIR"
mount --bind "$INCUS_DIR" ".$INCUS_DIR"
pivot_root . oldroot
umount -l /oldroot
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/libexec/incus
trap 'kill -TERM $daemon' TERM
incusd --group root &
daemon=$!
while kill -0 $daemon 2>/dev/null; do wait $daemon || :; done
`;

/**
 * The same for Incus. It runs in a mount and process namespace of its own, in a Debian tree that has it: with the first
 * process of that namespace every other one ends, containers too.
 */
export async function startIncus(): Promise<TestPeer> {
  const tree = await incusTree();
  const { base, dir } = await stateFolder('incus');
  const unshare = ['--mount', '--pid', '--fork', '--kill-child', '/bin/sh', '-c', INCUS_SCRIPT, 'incus'];
  return startPeer({
    name: 'incus',
    dir,
    base,
    // Nothing of it outlives the tests, even when they are killed.
    argv: ['setpriv', '--pdeathsig', 'KILL', 'unshare', ...unshare],
    env: { INCUS_DIR: dir, BASE: base, TREE: tree },
    stop: stopChildren,
  });
}

/** A base folder, and in it the state folder, which guests may enter. */
async function stateFolder(name: string): Promise<{ base: string; dir: string }> {
  const base = mkdtempSync(join(tmpdir(), `keelson-${name}-`));
  const dir = join(base, 'state');
  mkdirSync(dir);
  await command('chmod', ['711', base, dir]);
  return { base, dir };
}

/** `unshare` blocks SIGTERM while its child runs: the child gets it. */
function stopChildren(pid: number): void {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/);
  for (const child of children) if (child !== '') process.kill(Number(child), 'SIGTERM');
}

async function startPeer(peer: PeerCommand): Promise<TestPeer> {
  const { name, dir, base, argv, env } = peer;
  const socket = join(dir, 'unix.socket');
  const logFile = join(base, 'log');
  const log = openSync(logFile, 'a');
  const [program, ...args] = argv;
  const child = spawn(program, args, { stdio: ['ignore', log, log], env: { ...process.env, ...env } });
  let missing: Error | undefined;
  child.on('error', (error) => (missing = error)); // it cannot be started: there is neither an exit nor a process
  const running = (): boolean => missing === undefined && child.exitCode === null && child.signalCode === null;
  const dispose = async (): Promise<void> => {
    if (running() && child.pid !== undefined) {
      const ended = once(child, 'exit');
      if (peer.stop === undefined) child.kill('SIGTERM');
      else peer.stop(child.pid);
      const timer = setTimeout(() => child.kill('SIGKILL'), 30_000);
      await ended;
      clearTimeout(timer);
    }
    await removeLeftovers(base);
    rmSync(base, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await until(`${name} to answer`, async () => !running() || (await request(socket, 'GET', '/1.0')).status === 200, {
      timeoutMs: 60_000,
      intervalMs: 100,
    });
    if (!running()) throw new Error(`${name} ended: ${readFileSync(logFile, 'utf8')}`, { cause: missing });
  } catch (error) {
    await dispose();
    throw error;
  }
  return {
    dir,
    socket,
    request: (method, path, body, options) => request(socket, method, path, body, options),
    [Symbol.asyncDispose]: dispose,
  };
}
