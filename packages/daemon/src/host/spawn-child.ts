import { accessSync, constants } from 'node:fs';
import { Socket } from 'node:net';
import { constants as osConstants } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import koffi from 'koffi';
import { SyscallError } from './syscalls.ts';

export interface ChildSpec {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
  /** Whether its standard input is a pipe; else /dev/null. */
  readonly input: boolean;
}

/** A process whose output must be read to its end: only then its exit is looked for. */
export interface Child {
  readonly pid: number;
  readonly stdin: Writable | undefined;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Exit code; 128 when a signal ended it. Never rejects. */
  readonly exited: Promise<number>;
  /** SIGKILL, and its output ends at once. No effect on one that has ended. */
  kill(): void;
}

const libc = koffi.load('libc.so.6');
const c = {
  spawn: libc.func(
    'int posix_spawn(void *pid, const char *path, void *actions, void *attributes, const char **argv, const char **envp)',
  ),
  pipe2: libc.func('int pipe2(void *fds, int flags)'),
  close: libc.func('int close(int fd)'),
  waitpid: libc.func('int waitpid(int pid, void *status, int options)'),
  initActions: libc.func('int posix_spawn_file_actions_init(void *actions)'),
  addDup2: libc.func('int posix_spawn_file_actions_adddup2(void *actions, int fd, int as)'),
  addOpen: libc.func(
    'int posix_spawn_file_actions_addopen(void *actions, int as, const char *path, int flags, int mode)',
  ),
  addChdir: libc.func('int posix_spawn_file_actions_addchdir_np(void *actions, const char *path)'),
  destroyActions: libc.func('int posix_spawn_file_actions_destroy(void *actions)'),
  initAttributes: libc.func('int posix_spawnattr_init(void *attributes)'),
  destroyAttributes: libc.func('int posix_spawnattr_destroy(void *attributes)'),
  setFlags: libc.func('int posix_spawnattr_setflags(void *attributes, short flags)'),
  setDefault: libc.func('int posix_spawnattr_setsigdefault(void *attributes, void *signals)'),
};

const O_CLOEXEC = 0x80000;
const WNOHANG = 1;
const SETSIGDEF = 0x04;
const SETSIGMASK = 0x08;
/** Larger than glibc's structures on any architecture. */
const STRUCTURE = 512;

/**
 * Starts a process without holding up this thread: it neither copies this process's page tables, as fork does, nor
 * waits here until the child got a processor to run its program on. Always an argument vector; the program is looked
 * for in `env.PATH`. @throws ENOENT, EACCES, … as Node's own `spawn` reports them.
 */
export async function spawnChild(spec: ChildSpec): Promise<Child> {
  const path = findProgram(spec.command, spec.env['PATH'] ?? '');
  const pipes = { stdin: spec.input ? pipe() : undefined, stdout: pipe(), stderr: pipe() };
  const ours = [pipes.stdin?.write, pipes.stdout.read, pipes.stderr.read].filter((fd) => fd !== undefined);
  const theirs = [pipes.stdin?.read, pipes.stdout.write, pipes.stderr.write].filter((fd) => fd !== undefined);
  const actions = Buffer.alloc(STRUCTURE);
  c.initActions(actions);
  try {
    if (pipes.stdin === undefined) c.addOpen(actions, 0, '/dev/null', constants.O_RDONLY, 0);
    else c.addDup2(actions, pipes.stdin.read, 0);
    c.addDup2(actions, pipes.stdout.write, 1);
    c.addDup2(actions, pipes.stderr.write, 2);
    if (spec.cwd !== undefined) c.addChdir(actions, spec.cwd);
    const pid = await spawned(path, spec, actions);
    return new SpawnedChild(pid, pipes.stdin?.write, pipes.stdout.read, pipes.stderr.read);
  } catch (error) {
    for (const fd of ours) c.close(fd);
    throw error;
  } finally {
    for (const fd of theirs) c.close(fd);
    c.destroyActions(actions);
  }
}

function spawned(path: string, spec: ChildSpec, actions: Buffer): Promise<number> {
  const attributes = Buffer.alloc(STRUCTURE);
  const all = Buffer.alloc(128, 0xff); // sigset_t; sigfillset leaves out two, which the child would then ignore
  c.initAttributes(attributes);
  c.setDefault(attributes, all); // what this process ignores or blocks is nothing the child shall inherit
  c.setFlags(attributes, SETSIGDEF | SETSIGMASK);
  const pid = Buffer.alloc(4);
  const argv = [spec.command, ...spec.args, null];
  const envp = [...Object.entries(spec.env).map(([name, value]) => `${name}=${value}`), null];
  return new Promise((resolve, reject) => {
    c.spawn.async(pid, path, actions, attributes, argv, envp, (error: Error | null, errno: number) => {
      c.destroyAttributes(attributes); // and nothing frees them before
      if (error !== null) reject(error);
      else if (errno !== 0) reject(new SyscallError('spawn', errno, spec.command));
      else resolve(pid.readInt32LE());
    });
  });
}

function findProgram(command: string, search: string): string {
  if (command.includes('/')) return command;
  for (const folder of search.split(':')) {
    const path = join(folder, command);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // the next one
    }
  }
  throw new SyscallError('spawn', osConstants.errno.ENOENT, command);
}

function pipe(): { read: number; write: number } {
  const fds = Buffer.alloc(8);
  if (c.pipe2(fds, O_CLOEXEC) !== 0) throw new SyscallError('pipe2', koffi.errno(), '');
  return { read: fds.readInt32LE(0), write: fds.readInt32LE(4) };
}

class SpawnedChild implements Child {
  readonly pid: number;
  readonly stdin: Socket | undefined;
  readonly stdout: Socket;
  readonly stderr: Socket;
  readonly exited: Promise<number>;
  readonly #resolve: (code: number) => void;
  #open = 2;
  #ended = false;
  #reaping = false;

  constructor(pid: number, stdin: number | undefined, stdout: number, stderr: number) {
    this.pid = pid;
    const { promise, resolve } = Promise.withResolvers<number>();
    this.exited = promise;
    this.#resolve = resolve;
    this.stdin = stdin === undefined ? undefined : new Socket({ fd: stdin, readable: false, writable: true });
    this.stdin?.on('error', () => undefined); // it may end before it read everything
    this.stdout = this.#reader(stdout);
    this.stderr = this.#reader(stderr);
  }

  kill(): void {
    if (this.#ended) return; // from here on the pid may be another's
    try {
      process.kill(this.pid, 'SIGKILL');
    } catch {
      // whoever started this daemon has the kernel reap its children
    }
    for (const stream of [this.stdin, this.stdout, this.stderr]) stream?.destroy();
  }

  #reader(fd: number): Socket {
    const stream = new Socket({ fd, readable: true, writable: false });
    stream.once('close', () => {
      if (--this.#open === 0 && !this.#reaping) {
        this.#reaping = true;
        void this.#reap();
      }
    });
    return stream;
  }

  /** Its output has ended: it is gone, or about to go. */
  async #reap(): Promise<void> {
    const status = Buffer.alloc(4);
    for (let pause = 0.5; ; pause = Math.min(pause * 2, 50)) {
      const result: unknown = c.waitpid(this.pid, status, WNOHANG);
      if (result !== 0) {
        this.#ended = true;
        this.stdin?.destroy();
        const word = status.readInt32LE();
        this.#resolve(result === this.pid ? ((word & 0x7f) === 0 ? (word >> 8) & 0xff : 128) : 255);
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}
