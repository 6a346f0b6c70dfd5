import { debianImage, named, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { host, LxcHarness, ref } from './lxc-harness.ts';

describe.skipIf(!host.ok)(named('lxc driver: Debian with systemd', host), () => {
  let lxc: LxcHarness;
  beforeAll(async () => {
    lxc = await LxcHarness.create(await debianImage());
  }, 300_000);
  afterAll(() => lxc[Symbol.asyncDispose]());

  const booted = () =>
    until('the boot', async () => {
      const { stdout } = await lxc.exec('deb', ['systemctl', 'is-active', 'multi-user.target']);
      return stdout.trim() === 'active';
    });

  it('boots, reboots and shuts down in order', async () => {
    const started = performance.now();
    await lxc.driver.start(lxc.spec('deb'));
    await booted();
    expect((await lxc.exec('deb', ['systemd-detect-virt'])).stdout.trim()).toBe('lxc');
    const { stdout: memory } = await lxc.exec('deb', ['cat', '/proc/uptime']);
    // lxcfs counts from the guest's own start.
    expect(Number(memory.split(' ')[0])).toBeLessThan((performance.now() - started) / 1000 + 2);
    const { pid } = lxc.driver.state('deb');
    await lxc.exec('deb', ['systemctl', 'reboot']);
    await until('the reboot', () => lxc.driver.state('deb').pid !== pid && lxc.driver.state('deb').pid !== 0);
    await booted();
    await lxc.driver.shutdown(ref('deb'), 30_000);
    expect(lxc.driver.state('deb').status).toBe('Stopped');
    expect((await lxc.driver.consoleLog(ref('deb'))).toString()).toContain('Reached target shutdown.target');
    expect(lxc.cgroups()).toEqual([]);
  });

  it('ends at once, with all its own cgroups, also while it boots or is frozen', async () => {
    await lxc.driver.start(lxc.spec('deb'));
    await lxc.driver.kill(ref('deb'));
    await lxc.driver.start(lxc.spec('deb'));
    await booted();
    await lxc.driver.freeze(ref('deb'));
    await lxc.driver.kill(ref('deb'));
    expect(lxc.cgroups()).toEqual([]);
  });
});
