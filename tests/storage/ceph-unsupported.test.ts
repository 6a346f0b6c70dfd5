import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Server } from '@keelson/api';
import { type Probe, keelsond, named, probeCeph, removeLeftovers, request, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** What would mount a CephFS or map an image; hidden from the daemon of this test. */
const HIDDEN = ['/usr/bin/ceph-fuse', '/usr/bin/qemu-storage-daemon', '/usr/bin/rbd-nbd'].filter(existsSync);

function probeBare(): Probe {
  const ceph = probeCeph('unshare');
  if (!ceph.ok) return ceph;
  const kernel = /\tceph$/m.test(readFileSync('/proc/filesystems', 'utf8')) || existsSync('/sys/bus/rbd');
  return kernel ? { ok: false, reason: 'the kernel has ceph' } : ceph;
}

const probe = probeBare();

describe.skipIf(!probe.ok)(
  named('a host that can neither mount CephFS nor map images', probe),
  { timeout: 240_000 },
  () => {
    const stateDir = mkdtempSync(join(tmpdir(), 'keelson-test-'));
    const socket = join(stateDir, 'unix.socket');
    const hide = HIDDEN.map((program) => `mount --bind /dev/null ${program}`).join(' && ');
    const script = `${hide} && exec "$@"`;
    const argv = ['--mount', 'sh', '-c', script, 'sh', keelsond.program, ...keelsond.args, '--state-dir', stateDir];
    const daemon = probe.ok ? spawn('unshare', argv, { stdio: 'ignore' }) : undefined;

    beforeAll(async () => {
      await until('the daemon', async () => (await request(socket, 'GET', '/1.0')).status === 200, {
        timeoutMs: 60_000,
      });
    }, 90_000);
    afterAll(async () => {
      if (daemon !== undefined && daemon.exitCode === null) {
        const ended = once(daemon, 'exit');
        daemon.kill('SIGTERM');
        await ended;
      }
      await removeLeftovers(stateDir);
      rmSync(stateDir, { recursive: true, force: true });
    }, 60_000);

    it('does not list the drivers', async () => {
      const { body } = await request<Server>(socket, 'GET', '/1.0');
      const names = body.metadata.environment.storage_supported_drivers.map(({ Name }) => Name);
      expect(names).toContain('dir');
      expect(names).not.toContain('ceph');
      expect(names).not.toContain('cephfs');
    });

    it.each([
      ['ceph', 'the kernel has neither rbd nor nbd, and there is no qemu-storage-daemon with rbd and FUSE'],
      ['cephfs', 'the kernel has no ceph or the tools are not installed (ceph-common), and there is no ceph-fuse'],
    ])('refuses a pool of driver %s with the reason', async (driver, reason) => {
      const { body } = await request(socket, 'POST', '/1.0/storage-pools', {
        name: 'p',
        driver,
        config: { source: 'x' },
      });
      expect(body).toMatchObject({
        error_code: 400,
        error: expect.stringContaining(`Storage driver "${driver}" is not supported here: ${reason}`),
      });
    });
  },
);
