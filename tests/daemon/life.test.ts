import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command, handled, keelsond, startDaemon, until } from '@keelson/testkit';
import { describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';

const run = (...args: string[]) => command(keelsond.program, [...keelsond.args, ...args], { anyExit: true });

describe('keelsond', () => {
  test('the socket appears ready, for root and its group only', async () => {
    await using daemon = await startDaemon();
    const { mode } = statSync(daemon.socket);
    expect(mode & 0o777).toBe(0o660);
    const { body } = await daemon.request<{ environment: { server: string; server_pid: number } }>('GET', '/1.0');
    expect(body.metadata.environment).toMatchObject({ server: 'keelson', server_pid: daemon.pid });
  });

  test('SIGTERM stops it cleanly; what it acknowledged is there again', async () => {
    await using daemon = await startDaemon();
    await daemon.request('POST', '/1.0/profiles', { name: 'kept' });
    expect(await daemon.stop()).toBe(0);
    expect(existsSync(daemon.socket)).toBe(false);
    await daemon.start();
    expect((await daemon.request('GET', '/1.0/profiles/kept')).status).toBe(200);
    expect(await daemon.leftovers()).toMatchObject({ mounts: [], loops: [] });
  });

  test('SIGTERM does not wait for waiting clients and open websockets', async () => {
    await using daemon = await startDaemon();
    await daemon.request('PATCH', '/1.0', { config: { 'core.https_address': '127.0.0.1:0' } });
    const { body } = await daemon.request('POST', '/1.0/certificates', { type: 'client', token: true });
    const waiting = daemon.request<{ status: string }>('GET', `${body.operation}/wait`).catch(() => undefined);
    const events = new WebSocket(`ws+unix://${daemon.socket}:/1.0/events`);
    await once(events, 'open');
    const closed = handled(once(events, 'close'));
    const started = Date.now();
    expect(await daemon.stop(60_000)).toBe(0);
    expect(Date.now() - started).toBeLessThan(30_000); // they would wait for ever
    expect((await closed)[0]).toBe(1001);
    await waiting;
  });

  test('kill -9 in the middle of changes: every acknowledged one is there', async () => {
    await using daemon = await startDaemon();
    const acknowledged: string[] = [];
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let index = 0; ; index++) {
        const name = `p${writer}-${index}`;
        const answer = await daemon.request('POST', '/1.0/profiles', { name }).catch(() => undefined);
        if (answer?.status !== 201) return;
        acknowledged.push(name);
      }
    });
    await until('some changes', () => acknowledged.length >= 40);
    await daemon.kill();
    await Promise.all(writers);
    await daemon.start();
    const { body } = await daemon.request<{ name: string }[]>('GET', '/1.0/profiles?recursion=1');
    const names = new Set(body.metadata.map(({ name }) => name));
    expect(acknowledged.filter((name) => !names.has(name))).toEqual([]);
  });

  test('a state folder has one daemon', async () => {
    await using daemon = await startDaemon();
    const scratch = join(daemon.stateDir, 'scratch', 'in-use');
    writeFileSync(scratch, '');
    const second = await run('--state-dir', daemon.stateDir);
    expect(existsSync(scratch)).toBe(true);
    expect([second.code, second.stderr]).toEqual([3, expect.stringContaining(`pid ${daemon.pid}`)]);
    expect((await daemon.request('GET', '/1.0')).status).toBe(200);
    await daemon.kill(); // leaves socket and lock file behind
    await daemon.start();
    expect((await daemon.request('GET', '/1.0')).status).toBe(200);
  });

  test('waitready', async () => {
    await using daemon = await startDaemon();
    expect((await run('waitready', '--state-dir', daemon.stateDir)).code).toBe(0);
    await daemon.stop();
    expect((await run('waitready', '--timeout', '1', '--state-dir', daemon.stateDir)).code).toBe(1);
  });

  test.each([
    [['--zork'], 2],
    [['zork'], 2],
    [['--version'], 0],
    [['--help'], 0],
    [['--group', 'no-such-group', '--state-dir', join(tmpdir(), `keelson-none-${process.pid}`)], 1],
  ])('%j exits with %i', async (args, code) => {
    expect((await run(...args)).code).toBe(code);
    rmSync(join(tmpdir(), `keelson-none-${process.pid}`), { recursive: true, force: true });
  });
});

describe('under a service manager', () => {
  // Node has no datagram sockets of that kind; a few lines of Python stand in for systemd.
  const MANAGER = `
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print("bound", flush=True)
while True:
    print(s.recv(4096).decode().replace("\\n", " "), flush=True)
`;

  test('it tells when it is ready, that it lives, and that it stops', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'keelson-notify-'));
    const manager = spawn('python3', ['-c', MANAGER, join(folder, 'notify')]);
    const ended = once(manager, 'exit');
    let said = '';
    manager.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
    try {
      await until('the manager', () => said.includes('bound'));
      await using daemon = await startDaemon({
        env: { NOTIFY_SOCKET: join(folder, 'notify'), WATCHDOG_USEC: '200000' },
      });
      await until('READY', () => said.includes(`READY=1 MAINPID=${daemon.pid}`));
      await until('two signs of life', () => said.split('WATCHDOG=1').length > 2);
      await daemon.stop();
      await until('STOPPING', () => said.includes('STOPPING=1'));
    } finally {
      manager.kill();
      await ended;
      rmSync(folder, { recursive: true });
    }
  });
});
