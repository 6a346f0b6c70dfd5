import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';
import { afterAll, describe, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { DataChannel } from './channels.ts';
import { parseRemote } from './dial.ts';

const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
afterAll(() => server.close());

async function pair(): Promise<{ near: WebSocket; far: WebSocket }> {
  const accepted = once(server, 'connection');
  const near = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await once(near, 'open');
  const [far] = (await accepted) as [WebSocket];
  return { near, far };
}

describe('data channels', () => {
  test('frames keep their ends, whatever comes first', async () => {
    const { near, far } = await pair();
    const [one, two] = [new DataChannel(near), new DataChannel(far)];
    const big = Buffer.alloc(3_000_000, 'x');
    const sending = (async () => {
      for (const content of [big, Buffer.alloc(0), Buffer.from('last')])
        await pipeline(Readable.from(content.length === 0 ? [] : [content]), one.write());
    })();
    expect((await two.readAll(big.length)).equals(big)).toBe(true);
    expect((await two.readAll(10)).length).toBe(0);
    expect((await two.readAll(10)).toString()).toBe('last');
    await sending;
    near.close();
    far.close();
  });

  test('a connection that ends inside a frame is a failure, not an end', async () => {
    const { near, far } = await pair();
    const channel = new DataChannel(far);
    near.send(Buffer.from('half'));
    near.close();
    await expect(channel.readAll(100)).rejects.toThrow('closed the connection');
    await expect(channel.readAll(100)).rejects.toThrow('closed the connection');
    await expect(pipeline(Readable.from([Buffer.from('x')]), channel.write())).rejects.toThrow('closed the connection');
  });

  test('a description that is too long is refused', async () => {
    const { near, far } = await pair();
    near.send(Buffer.alloc(200));
    near.send('');
    await expect(new DataChannel(far).readAll(100)).rejects.toThrow('more than 100 bytes');
    near.close();
  });
});

describe('addresses of operations', () => {
  const secrets = { control: 'a', fs: 'b' };
  const url = 'https://host:8443/1.0/operations/c0ffee00-0000-4000-8000-000000000000';
  const parse = (address: string) => parseRemote({ url: address, certificate: '', secrets });

  test('only an operation over HTTPS', () => {
    expect(parse(`${url}/`).url).toBe(url);
    for (const wrong of [
      url.replace('https', 'http'),
      'https://host/1.0/instances/c1',
      `${url}/../../instances`,
      url.replace('host', 'user:word@host'),
      'file:///etc/passwd',
      'nonsense',
    ])
      expect(() => parse(wrong)).toThrow();
  });

  test('secrets and certificates must be there and right', () => {
    expect(() => parseRemote({ url, certificate: '', secrets: { control: 'a' } })).toThrow('Missing fs secret');
    expect(() => parseRemote({ url, certificate: 'nonsense', secrets })).toThrow('Invalid certificate');
  });
});
