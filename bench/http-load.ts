import { connect, type Socket } from 'node:net';

/** Requests per second over a unix socket: `connections` keep-alive connections, one request at a time on each. */
export async function requestsPerSecond(
  socketPath: string,
  path: string,
  options: { connections: number; seconds: number },
): Promise<number> {
  const request = Buffer.from(`GET ${path} HTTP/1.1\r\nHost: bench\r\n\r\n`);
  const end = performance.now() + options.seconds * 1000;
  const started = performance.now();
  const counts = await Promise.all(Array.from({ length: options.connections }, () => drive(socketPath, request, end)));
  return counts.reduce((sum, count) => sum + count, 0) / ((performance.now() - started) / 1000);
}

/** Sends the request again and again until `end`; resolves with how often it was answered. */
function drive(socketPath: string, request: Buffer, end: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let count = 0;
    const socket: Socket = connect(socketPath, () => socket.write(request));
    const reader = new ResponseReader((status) => {
      if (status !== 200) return reject(new Error(`${request.toString().split('\r\n')[0]}: status ${status}`));
      count++;
      if (performance.now() < end) return void socket.write(request);
      socket.destroy();
      resolve(count);
    });
    socket.on('data', (chunk) => reader.push(chunk));
    socket.on('error', reject);
  });
}

/** Finds the end of each answer without parsing more than it must. */
class ResponseReader {
  readonly #done: (status: number) => void;
  #head = '';
  #status = 0;
  #left = -1;
  #chunked = false;
  #tail = '';

  constructor(done: (status: number) => void) {
    this.#done = done;
  }

  push(chunk: Buffer): void {
    if (this.#left < 0 && !this.#chunked) {
      this.#head += chunk.toString('latin1');
      const at = this.#head.indexOf('\r\n\r\n');
      if (at < 0) return;
      const head = this.#head.slice(0, at).toLowerCase();
      const rest = this.#head.length - at - 4;
      this.#status = Number(head.slice(9, 12));
      this.#chunked = head.includes('transfer-encoding: chunked');
      this.#tail = this.#head.slice(at + 4).slice(-7);
      this.#left = this.#chunked ? 0 : Number(/content-length: (\d+)/.exec(head)?.[1] ?? 0) - rest;
    } else if (this.#chunked) this.#tail = (this.#tail + chunk.subarray(-7).toString('latin1')).slice(-7);
    else this.#left -= chunk.length;
    const complete = this.#chunked
      ? this.#tail.endsWith('\r\n0\r\n\r\n') || this.#tail.endsWith('0\r\n\r\n')
      : this.#left <= 0;
    if (!complete) return;
    this.#head = '';
    this.#left = -1;
    this.#chunked = false;
    this.#tail = '';
    this.#done(this.#status);
  }
}
