import { closeSync, constants, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs';
import koffi from 'koffi';
import { errors } from '../core/errors.ts';
import { OWNER } from './run.ts';

const LOCK_EX = 2;
const LOCK_NB = 4;

export interface PidLock extends Disposable {
  /** `OWNER` of the process that had the lock last, when it was killed. */
  readonly killed: string | undefined;
  /** From now on this process is the one that had it last. */
  take(): void;
}

/**
 * Holds a state folder for one process. The kernel gives the lock free when the process ends, however it ends, so
 * there is no stale lock. The file holds the owner's pid for people to read, and its name among all processes.
 * @throws locked naming the pid of the daemon that has it.
 */
export function lockPidFile(path: string): PidLock {
  const fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  const flock = koffi.load('libc.so.6').func('int flock(int fd, int operation)');
  const isFree = flock(fd, LOCK_EX | LOCK_NB) === 0;
  const [pid = '', killed = ''] = readFileSync(fd, 'utf8').split('\n');
  if (!isFree) {
    closeSync(fd);
    throw errors.locked(`The state folder is in use by the daemon with pid ${pid} (lock ${path})`);
  }
  return {
    killed: killed === '' ? undefined : killed,
    take: () => {
      ftruncateSync(fd);
      writeSync(fd, `${process.pid}\n${OWNER}\n`, 0);
    },
    [Symbol.dispose]: () => {
      ftruncateSync(fd); // it was not killed
      closeSync(fd);
    },
  };
}
