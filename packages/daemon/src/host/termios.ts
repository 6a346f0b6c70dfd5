import koffi from 'koffi';

type Call = (...args: (number | Uint8Array)[]) => number;
const libc = koffi.load('libc.so.6');
const bind = (prototype: string): Call => libc.func(prototype);
const tcgetattr = bind('int tcgetattr(int fd, void *termios)');
const tcsetattr = bind('int tcsetattr(int fd, int action, void *termios)');
const cfmakeraw = bind('void cfmakeraw(void *termios)');

/** More than the C library's `struct termios` takes anywhere. */
const TERMIOS_SIZE = 128;
const TCSANOW = 0;
/** Offset of `c_oflag`. */
const OUTPUT_FLAGS = 4;
const OPOST = 0x1;
const ONLCR = 0x4;

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
