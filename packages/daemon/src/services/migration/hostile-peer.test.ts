import { once } from 'node:events';
import { lstat, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import type { StoragePool } from '../../drivers/storage/contract.ts';
import { ControlChannel, DataChannel } from './channels.ts';
import { Peer } from './peer.ts';
import { VolumeReceiver } from './receiver.ts';
import { type Delivery, type Incoming, runTarget } from './session.ts';
import type { TransferTools } from './tools.ts';
import { encodeHeader, type WireSnapshot } from './wire/messages.ts';
import { readFields } from './wire/protobuf.ts';

const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keelson-peer-'));
});
afterEach(() => void vi.useRealTimers());
afterAll(async () => {
  for (const client of server.clients) client.terminate();
  server.close();
  await rm(folder, { recursive: true, force: true });
});

async function pair(): Promise<{ near: WebSocket; far: WebSocket }> {
  const accepted = once(server, 'connection');
  const near = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await once(near, 'open');
  const [far] = (await accepted) as [WebSocket];
  return { near, far };
}

async function peers(): Promise<{ peer: Peer; control: WebSocket; fs: WebSocket }> {
  const [control, fs] = [await pair(), await pair()];
  const sockets = new Map([
    ['control', control.far],
    ['fs', fs.far],
  ]);
  return { peer: new Peer(sockets), control: control.near, fs: fs.near };
}

const incoming: Incoming = {
  types: () => [{ fs: 'rsync', features: [] }],
  fallback: 'rsync',
  refresh: false,
  wanted: (offered) => offered,
  receive: async () => undefined,
};

describe('a hostile peer', () => {
  test.each(['', Buffer.alloc(0)])('is made to wait when it sends endless empty messages', async (message) => {
    const { near, far } = await pair();
    const channel = new DataChannel(far);
    for (let sent = 0; sent < 20_000; sent++) near.send(message, { binary: typeof message !== 'string' });
    await vi.waitFor(() => expect(far.isPaused).toBe(true), 10_000);
    near.send('');
    expect(await channel.readAll(1)).toHaveLength(0); // it still reads, and goes on
    near.close();
  });

  test('that goes away before anybody reads ends nothing else', async () => {
    const { near, far } = await pair();
    const frame = new DataChannel(far).read();
    frame.on('data', () => undefined).pause();
    near.terminate();
    await vi.waitFor(() => expect(frame.errored).not.toBeNull(), 5_000);
    await expect(frame.toArray()).rejects.toThrow('closed the connection');
  });

  test('sends no message larger than the control channel takes', async () => {
    const { near, far } = await pair();
    near.send(Buffer.alloc(5 * 1024 * 1024));
    await expect(new ControlChannel(far).receive()).rejects.toThrow('too long');
    near.close();
  });

  test('sends no message of millions of fields', () => {
    expect(() => readFields(Buffer.alloc(4 * 1024 * 1024, 8))).toThrow('cannot be read');
    expect(readFields(Buffer.alloc(1000, 8))).toHaveLength(500);
  });

  test('offers only so many snapshots', async () => {
    const { peer, control } = await peers();
    const nothing = { config: {}, profiles: [], ephemeral: false, devices: {}, architecture: 0, stateful: false };
    const one: WireSnapshot = { ...nothing, name: 's', createdAt: 0, lastUsedAt: 0, expiresAt: 0 };
    const snapshots = Array.from({ length: 10_001 }, () => one);
    const offer = { fs: 'rsync', idmap: [], snapshotNames: snapshots.map(({ name }) => name), snapshots } as const;
    control.send(encodeHeader(offer));
    await expect(runTarget(peer, incoming, new AbortController().signal)).rejects.toThrow('more than 10000 snapshots');
    peer.close('failed');
  });

  test('that says nothing is given up', async () => {
    const { peer } = await peers();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const run = runTarget(peer, incoming, new AbortController().signal);
    const outcome = run.then(
      () => 'done',
      (error: unknown) => String(error),
    );
    await vi.advanceTimersByTimeAsync(120_000);
    expect(await outcome).toMatch('does not answer');
    peer.close('failed');
  });
});

describe('a hostile source', () => {
  const delivery: Delivery = {
    type: { fs: 'rsync', features: [] },
    refresh: false,
    offered: [],
    snapshots: [],
    twice: false,
    idmap: [
      { isUid: true, isGid: false, hostId: 0, guestId: 0, range: 65_536 },
      { isUid: false, isGid: true, hostId: 0, guestId: 0, range: 65_536 },
    ],
    volumeSize: undefined,
    index: undefined,
  };
  const signal = new AbortController().signal;

  test('puts no link in place of the root that is read on this host', async () => {
    const bound: string[] = [];
    const tools: TransferTools = {
      sendTree: async () => undefined,
      receiveTree: async (jail) => {
        await rm(join(jail, 'volume/rootfs'), { recursive: true });
        await symlink('/etc', join(jail, 'volume/rootfs'));
      },
      prepareJail: async () => [],
      bind: async (source) => void bound.push(source),
      unmount: async () => undefined,
      mirror: async () => undefined,
      readSmall: async () => undefined,
    };
    const target = { type: 'container', name: 'c1', contentType: 'filesystem' } as const;
    const path = join(folder, 'root');
    await mkdir(path);
    const pool = {
      roots: { createFilled: (_: unknown, __: unknown, fill: (path: string) => Promise<void>) => fill(path) },
    } as Partial<StoragePool> as StoragePool;
    const landing = {
      pool,
      target,
      options: { idRange: undefined, clone: 'auto', nesting: false },
      exists: false,
    } as const;
    const receiver = new VolumeReceiver({ tools, scratch: folder });
    const { far } = await pair();
    const channel = new DataChannel(far);
    const receiving = receiver.receive({ landing, delivery, channel, signal, count: () => undefined });
    await expect(receiving).rejects.toThrow('no folder');
    expect(bound).toEqual([]);
    expect((await lstat('/etc')).isDirectory()).toBe(true);
  });

  test('sends no more blocks than the volume was to have', async () => {
    const tools = {} as Partial<TransferTools> as TransferTools;
    const path = join(folder, 'root.img');
    await writeFile(path, '');
    const volumes = {
      create: async () => undefined,
      mount: async () => path,
      unmount: async () => undefined,
      delete: async () => undefined,
    };
    const pool = { volumes: volumes as Partial<StoragePool['volumes']> } as Partial<StoragePool> as StoragePool;
    const options = { idRange: undefined, clone: 'auto', nesting: false, config: { size: '1MiB' } } as const;
    const target = { type: 'custom', name: 'default_b', contentType: 'block' } as const;
    const landing = { pool, target, options, exists: false };
    const receiver = new VolumeReceiver({ tools, scratch: folder });
    const { near, far } = await pair();
    const channel = new DataChannel(far);
    const type = { fs: 'block-and-rsync', features: [] } as const;
    const receive = (volumeSize: number | undefined): Promise<unknown> =>
      receiver.receive({
        landing,
        delivery: { ...delivery, type, volumeSize },
        channel,
        signal,
        count: () => undefined,
      });
    await expect(receive(1024 ** 4)).rejects.toThrow('more than the size asked for');
    await expect(receive(-1)).rejects.toThrow('a size that is none');
    near.send(Buffer.alloc(2 * 1024 * 1024, 1));
    near.send('');
    await expect(receive(undefined)).rejects.toThrow('more than the volume holds');
    expect((await readFile(path)).length).toBeLessThanOrEqual(1024 * 1024);
    near.close();
  });
});
