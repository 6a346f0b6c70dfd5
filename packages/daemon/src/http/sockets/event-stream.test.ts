import { once } from 'node:events';
import { expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { ManualClock } from '../../core/clock.ts';
import { EventService } from '../../services/events/event-service.ts';
import { EventStreams } from './event-stream.ts';

test('a reader that never reads is cut off, others get everything', async () => {
  const events = new EventService({ clock: new ManualClock() });
  const streams = new EventStreams(events);
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const options = { types: ['lifecycle'], project: undefined, since: undefined, sees: () => true } as const;
  server.on('connection', (socket) => streams.attach(socket, options));

  const connect = async (): Promise<{ socket: WebSocket; closed: Promise<unknown[]> }> => {
    const socket = new WebSocket(`ws://127.0.0.1:${address.port}`);
    const closed = once(socket, 'close');
    await once(socket, 'open');
    return { socket, closed };
  };
  const slow = await connect();
  const good = await connect();
  slow.socket.pause();
  let received = 0;
  good.socket.on('message', () => (received += 1));

  const context = { text: 'x'.repeat(256 * 1024) };
  const total = 100; // 25 MiB: more than the kernel's buffers and ours together
  for (let sent = 1; sent <= total; sent++) {
    events.lifecycle('default', { action: 'test', source: '/1.0', context });
    while (received < sent) await once(good.socket, 'message');
  }
  slow.socket.resume();
  expect((await slow.closed)[0]).toBe(1006);
  expect(received).toBe(total);

  good.socket.close();
  await good.closed;
  server.close();
});
