import koffi from 'koffi';

const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const PATH_BYTES = 108;

/**
 * Tells the service manager how the daemon is (`READY=1`, `STOPPING=1`, `WATCHDOG=1`); see sd_notify(3).
 * Without a manager it does nothing. Never throws: the daemon works on when nobody listens.
 */
export class ServiceNotifier {
  readonly #socket: string | undefined;
  readonly #watchdogMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(environment: Readonly<Record<string, string | undefined>>) {
    this.#socket = environment['NOTIFY_SOCKET'] === '' ? undefined : environment['NOTIFY_SOCKET'];
    const own = environment['WATCHDOG_PID'] === undefined || Number(environment['WATCHDOG_PID']) === process.pid;
    this.#watchdogMs = own ? Number(environment['WATCHDOG_USEC'] ?? 0) / 1000 : 0;
  }

  /** Ready; from now on the watchdog hears from us as long as the event loop turns. */
  ready(): void {
    this.#send(`READY=1\nMAINPID=${process.pid}`);
    if (this.#watchdogMs <= 0) return;
    this.#timer = setInterval(() => this.#send('WATCHDOG=1'), this.#watchdogMs / 2);
    this.#timer.unref();
  }

  stopping(): void {
    clearInterval(this.#timer);
    this.#send('STOPPING=1');
  }

  #send(state: string): void {
    if (this.#socket === undefined) return;
    const libc = koffi.load('libc.so.6');
    const open = libc.func('int socket(int domain, int type, int protocol)');
    const sendto = libc.func(
      'long sendto(int fd, const void *buf, size_t len, int flags, const void *addr, uint32_t addrlen)',
    );
    const close = libc.func('int close(int fd)');
    const fd: unknown = open(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (typeof fd !== 'number' || fd < 0) return;
    const message = Buffer.from(state);
    const address = socketAddress(this.#socket);
    sendto(fd, message, message.length, 0, address, address.length);
    close(fd);
  }
}

/** `struct sockaddr_un`; a leading `@` names an abstract socket. */
function socketAddress(path: string): Buffer {
  const name = Buffer.from(path.startsWith('@') ? `\0${path.slice(1)}` : path);
  const address = Buffer.alloc(2 + Math.min(name.length, PATH_BYTES));
  address.writeUInt16LE(AF_UNIX);
  name.copy(address, 2);
  return address;
}
