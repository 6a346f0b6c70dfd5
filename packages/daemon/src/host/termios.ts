import { closeSync, constants, openSync } from 'node:fs';
import koffi from 'koffi';
import { SyscallError } from './syscalls.ts';

type Call = (...args: (number | Uint8Array)[]) => number;
const libc = koffi.load('libc.so.6');
const bind = (prototype: string): Call => libc.func(prototype);
const tcgetattr = bind('int tcgetattr(int fd, void *termios)');
const tcsetattr = bind('int tcsetattr(int fd, int action, void *termios)');
const cfmakeraw = bind('void cfmakeraw(void *termios)');
const ioctlOf = bind('int ioctl(int fd, unsigned long request, void *argument)');
const ioctlWith = bind('int ioctl(int fd, unsigned long request, unsigned long argument)');
const poll = bind('int poll(void *files, unsigned long count, int timeout)');

/** More than the C library's `struct termios` takes anywhere. */
const TERMIOS_SIZE = 128;
const TCSANOW = 0;
/** Offset of `c_oflag`. */
const OUTPUT_FLAGS = 4;
const OPOST = 0x1;
const ONLCR = 0x4;

const TIOCSWINSZ = 0x5414;
const TIOCSPTLCK = 0x40045431;
const TIOCGPTPEER = 0x5441;
const O_CLOEXEC = 0x80000;
const POLLOUT = 0x4;

/**
 * A raw terminal of that size, as two descriptors of the caller; a child has to be given the slave. The master never
 * blocks.
 * @throws SyscallError, or Node's own error when there are no more terminals.
 */
export function openTerminal(width: number, height: number): { readonly master: number; readonly slave: number } {
  const flags = constants.O_RDWR | constants.O_NOCTTY;
  const master = openSync('/dev/ptmx', flags | constants.O_NONBLOCK);
  try {
    if (ioctlOf(master, TIOCSPTLCK, Buffer.alloc(4)) !== 0) throw failed('unlock the terminal');
    const slave = ioctlWith(master, TIOCGPTPEER, flags | O_CLOEXEC);
    if (slave < 0) throw failed('open the terminal');
    makeRaw(master);
    setSize(master, width, height);
    return { master, slave };
  } catch (error) {
    closeSync(master);
    throw error;
  }
}

function failed(what: string): SyscallError {
  return new SyscallError('ioctl', koffi.errno(), what);
}

/** Sets the terminal's size in characters and tells the processes on it; `fd` is either end. */
export function setSize(fd: number, width: number, height: number): void {
  ioctlOf(fd, TIOCSWINSZ, Buffer.from(Uint16Array.of(height, width, 0, 0).buffer));
}

/** Makes the terminal pass bytes through unchanged; `fd` is either end of it. Without effect on anything else. */
export function makeRaw(fd: number): void {
  const termios = Buffer.alloc(TERMIOS_SIZE);
  if (tcgetattr(fd, termios) !== 0) return;
  cfmakeraw(termios);
  tcsetattr(fd, TCSANOW, termios);
}

/** Whether the terminal writes a carriage return before every newline. */
export function addsReturns(fd: number): boolean {
  const termios = Buffer.alloc(TERMIOS_SIZE);
  if (tcgetattr(fd, termios) !== 0) return false;
  const flags = termios.readUInt32LE(OUTPUT_FLAGS);
  return (flags & OPOST) !== 0 && (flags & ONLCR) !== 0;
}

/** Whether a write would not wait for a reader: there is room, or nobody has the terminal open any more. */
export function hasRoom(fd: number): boolean {
  const file = Buffer.alloc(8); // struct pollfd: fd, events, revents
  file.writeInt32LE(fd, 0);
  file.writeInt16LE(POLLOUT, 4);
  return poll(file, 1, 0) > 0;
}
