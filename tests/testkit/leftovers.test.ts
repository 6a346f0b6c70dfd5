import { existsSync } from 'node:fs';
import type { InstanceState } from '@keelson/api';
import { startDaemon, tinyImage, command, until } from '@keelson/testkit';
import { expect, it, onTestFinished } from 'vitest';

it('a test daemon leaves no guest behind, not even one that is frozen', async () => {
  const daemon = await startDaemon();
  onTestFinished(() => daemon[Symbol.asyncDispose]());
  const lxc = (...args: string[]) => command('lxc', args, { env: { LXD_DIR: daemon.stateDir } });
  const { metadata, rootfs } = await tinyImage();
  await lxc('image', 'import', metadata, rootfs, '--alias', 'tiny');
  await lxc('storage', 'create', 'p', 'dir');
  await lxc('launch', 'tiny', 'c1', '-s', 'p');
  await lxc('pause', 'c1');
  const { body } = await daemon.request<InstanceState>('GET', '/1.0/instances/c1/state');
  expect(body.metadata.status).toBe('Frozen');
  const process = `/proc/${body.metadata.pid}`;
  expect(existsSync(process)).toBe(true);
  await daemon.kill();
  await daemon[Symbol.asyncDispose]();
  await until('the guest to go', () => !existsSync(process), { timeoutMs: 10_000 });
});
