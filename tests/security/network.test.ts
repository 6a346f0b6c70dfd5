import { connect as connectTcp } from 'node:net';
import { connect, type TLSSocket } from 'node:tls';
import { clientCertificate, httpsCall } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SecurityWorld } from './world.ts';

describe('an untrusted client of the network', () => {
  let world: SecurityWorld;
  let host = '';
  let port = 0;

  beforeAll(async () => {
    world = await SecurityWorld.open();
    const colon = world.address.lastIndexOf(':');
    host = world.address.slice(0, colon);
    port = Number(world.address.slice(colon + 1));
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  /** All the server says to these bytes until it, or the deadline, ends the connection. */
  const say = (bytes: string, deadline = 20_000): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket: TLSSocket = connect({ host, port, rejectUnauthorized: false }, () => socket.write(bytes));
      let text = '';
      socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
      socket.on('error', (error) => (text === '' ? reject(error) : resolve(text)));
      socket.on('close', () => resolve(text));
      setTimeout(() => socket.destroy(), deadline).unref();
    });
  const alive = async (): Promise<void> => {
    expect((await httpsCall({ address: world.address }, 'GET', '/1.0')).status).toBe(200);
  };

  test('smuggles no second request behind an ambiguous length', async () => {
    const inner = 'GET /1.0/certificates HTTP/1.1\r\nHost: x\r\n\r\n';
    for (const headers of [
      'Content-Length: 4\r\nTransfer-Encoding: chunked',
      'Content-Length: 4\r\nContent-Length: 5',
      'Transfer-Encoding: xchunked',
      'Transfer-Encoding : chunked',
      'Content-Length: +4',
    ]) {
      const text = await say(`POST /1.0/certificates HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n0\r\n\r\n${inner}`, 1500);
      expect(text.match(/HTTP\/1\.1 /g)?.length ?? 0, headers).toBeLessThanOrEqual(1);
      expect(text, headers).not.toContain(' 200 ');
    }
    await alive();
  });

  test('sends no endless headers and no huge body', async () => {
    const long = await say(`GET /1.0 HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(200_000)}\r\n\r\n`);
    expect(long).not.toContain(' 200 ');
    const body = await say(
      'POST /1.0/certificates HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9999999999\r\n\r\n{',
    );
    expect(body).toMatch(/^HTTP\/1\.1 4\d\d /);
    await alive();
  });

  test('keeps others waiting with no number of half-open connections', async () => {
    const held = [
      ...Array.from({ length: 100 }, () => connectTcp({ host, port })),
      ...Array.from({ length: 50 }, () => {
        const socket = connect({ host, port, rejectUnauthorized: false }, () =>
          socket.write('GET /1.0 HTTP/1.1\r\nX-'),
        );
        return socket;
      }),
    ];
    for (const socket of held) socket.on('error', () => undefined);
    await alive();
    for (const socket of held) socket.destroy();
    await alive();
  });

  test('guesses few passwords', async () => {
    const own = await clientCertificate('guesser');
    const target = { address: world.address, certificate: own.certificate, key: own.key };
    const guess = (password: string) => httpsCall(target, 'POST', '/1.0/certificates', { type: 'client', password });
    const answers = await Promise.all(Array.from({ length: 30 }, (_, index) => guess(`guess ${index}`)));
    expect(answers.filter(({ status }) => status === 403).length).toBeLessThanOrEqual(10);
    expect(answers.filter(({ status }) => status === 503).length).toBeGreaterThanOrEqual(20);
    // Not even the right one now.
    expect((await guess('correct horse')).status).toBe(503);
    expect((await httpsCall(target, 'GET', '/1.0/certificates')).status).toBe(403);
  });

  test('opens no websocket', async () => {
    const upgrade =
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==';
    for (const path of ['/1.0/events', '/1.0/operations/x/websocket?secret=y'])
      expect(await say(`GET ${path} HTTP/1.1\r\nHost: x\r\n${upgrade}\r\n\r\n`)).toMatch(/^HTTP\/1\.1 (403|404) /);
  });

  test('writes no line of its own into the log', async () => {
    await say('GET /1.0/\x1b[2J%0aERROR%20forged HTTP/1.1\r\nHost: x\r\n\r\n', 1000);
    await say('GET /1.0/instances/%0d%0aforged HTTP/1.1\r\nHost: x\r\n\r\n', 1000);
    expect(world.world.daemon.logs).not.toMatch(/^(ERROR )?forged/m);
    expect(world.world.daemon.logs).not.toContain('\x1b[2J');
  });
});
