import type { RawData, WebSocket } from 'ws';
import type { ExecProcess } from '../../drivers/instance/contract.ts';
import { toBuffer } from './socket-pump.ts';

/** Close code of a connection that ended without a goodbye. */
const ABNORMAL = 1006;
const SIGKILL = 9;

/** A message of the control socket. */
interface ControlMessage {
  readonly command?: unknown;
  readonly args?: Readonly<Record<string, unknown>>;
  readonly signal?: unknown;
}

/** Obeys a control socket: window sizes, signals; a client that vanishes takes its command along. */
export function followControl(socket: WebSocket, process: ExecProcess): void {
  socket.on('message', (data: RawData) => {
    const message = parse(data);
    if (message?.command === 'window-resize') {
      const width = Number(message.args?.['width']);
      const height = Number(message.args?.['height']);
      if (isSize(width) && isSize(height)) process.resize(width, height);
    } else if (message?.command === 'signal' && Number.isInteger(message.signal)) {
      const number = Number(message.signal);
      if (number > 0 && number < 65) process.signal(number);
    }
  });
  socket.once('close', (code: number) => {
    if (code === ABNORMAL) process.signal(SIGKILL);
  });
  socket.resume();
}

function isSize(value: number): boolean {
  return Number.isInteger(value) && value > 0 && value < 65_536;
}

function parse(data: RawData): ControlMessage | undefined {
  try {
    const message: unknown = JSON.parse(toBuffer(data).toString('utf8'));
    return typeof message === 'object' && message !== null ? message : undefined;
  } catch {
    return undefined;
  }
}
