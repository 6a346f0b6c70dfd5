import { closeSync, constants, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs';
import koffi from 'koffi';
import { errors } from '../core/errors.ts';

const LOCK_EX = 2;
const LOCK_NB = 4;

/**
 * Holds a state folder for one process. The kernel gives the lock free when the process ends, however it ends, so
 * there is no stale lock. The file holds the owner's pid for people to read.
 * @throws locked naming the pid of the daemon that has it.
 */
export function lockPidFile(path: string): Disposable {
  const fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  const flock = koffi.load('libc.so.6').func('int flock(int fd, int operation)');
  if (flock(fd, LOCK_EX | LOCK_NB) !== 0) {
    const owner = readFileSync(fd, 'utf8').trim();
    closeSync(fd);
    throw errors.locked(`The state folder is in use by the daemon with pid ${owner} (lock ${path})`);
  }
  ftruncateSync(fd);
  writeSync(fd, `${process.pid}\n`);
  return { [Symbol.dispose]: () => closeSync(fd) };
}
