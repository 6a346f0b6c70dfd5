import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { named, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isKeelsonError } from '../../packages/daemon/src/core/errors.ts';
import { readHostFacts } from '../../packages/daemon/src/drivers/instance/lxc/host-facts.ts';
import { LxcFiles } from '../../packages/daemon/src/drivers/instance/lxc/files.ts';
import { Cgroup, readCgroupLayout } from '../../packages/daemon/src/host/cgroup.ts';
import { host, LxcHarness, ref } from './lxc-harness.ts';

describe.skipIf(!host.ok)(named('lxc driver: life of a guest', host), () => {
  let lxc: LxcHarness;
  beforeAll(async () => {
    lxc = await LxcHarness.create();
  });
  afterAll(() => lxc[Symbol.asyncDispose]());

  const ready = (name: string) =>
    until(`${name} to boot`, async () => (await lxc.driver.consoleLog(ref(name))).includes('tiny: ready'));

  it('says that this host can run containers', async () => {
    expect(await lxc.driver.probe()).toMatchObject({ supported: true, name: 'lxc' });
  });

  it('starts an unprivileged guest and kills it without leaving anything', async () => {
    const state = await lxc.driver.start(lxc.spec('c1'));
    expect(state).toEqual({ status: 'Running', pid: expect.any(Number) });
    expect(lxc.driver.state('c1')).toEqual(state);
    expect(readFileSync(`/proc/${state.pid}/uid_map`, 'utf8').trim().split(/\s+/)).toEqual(['0', '100000', '65536']);
    expect(statSync(`/proc/${state.pid}`).uid).toBe(100_000);
    expect((await lxc.exec('c1', ['grep', 'Seccomp:', '/proc/self/status'])).stdout).toContain('2');
    await lxc.driver.kill(ref('c1'));
    expect(lxc.driver.state('c1')).toEqual({ status: 'Stopped', pid: 0 });
    expect(existsSync(`/proc/${state.pid}`)).toBe(false);
    expect(lxc.cgroups()).toEqual([]);
    expect(lxc.events.splice(0)).toEqual([{ key: 'c1', type: 'stopped' }]);
    await lxc.driver.kill(ref('c1'));
  });

  it('keeps all guests in one cgroup that weighs what another process of the host weighs', async () => {
    const layout = readCgroupLayout();
    const files = new LxcFiles(lxc.lxcPath);
    const group = new Cgroup(layout, files.guests);
    const states = await Promise.all(['c1', 'c2'].map((name) => lxc.driver.start(lxc.spec(name))));
    for (const { pid } of states) {
      const controllers = readFileSync(`/proc/${pid}/cgroup`, 'utf8').split('\n').filter(Boolean);
      expect(
        controllers.filter((line) => !line.includes(`:/${files.guests}/payload.`) && !line.endsWith(':/')),
      ).toEqual([]);
    }
    const v1 = group.version('cpu') === 1;
    expect(await group.readNumber('cpu', v1 ? 'cpu.shares' : 'cpu.weight')).toBe(v1 ? 1024 : 100);
    await lxc.driver.kill(ref('c1'));
    expect(group.exists()).toBe(true);
    await lxc.driver.kill(ref('c2'));
    expect(lxc.cgroups()).toEqual([]);
    lxc.events.splice(0);
  });

  it('refuses a second start', async () => {
    await lxc.driver.start(lxc.spec('c1'));
    await expect(lxc.driver.start(lxc.spec('c1'))).rejects.toThrow('already running');
    await lxc.driver.kill(ref('c1'));
  });

  it('shuts down gracefully and says when the guest does not', async () => {
    await lxc.driver.start(lxc.spec('c1'));
    await ready('c1');
    await lxc.driver.shutdown(ref('c1'), 20_000);
    expect(lxc.driver.state('c1').status).toBe('Stopped');

    const deaf = lxc.spec('deaf');
    writeFileSync(join(deaf.rootfs.path, 'sbin/init'), '#!/bin/sh\ntrap "" PWR\nwhile :; do sleep 1; done\n');
    await lxc.driver.start(deaf);
    await until('the trap', async () => {
      const status = readFileSync(`/proc/${lxc.driver.state('deaf').pid}/status`, 'utf8');
      return (BigInt(`0x${/SigIgn:\s*(\w+)/.exec(status)?.[1] ?? '0'}`) & (1n << 29n)) !== 0n;
    });
    await expect(lxc.driver.shutdown(ref('deaf'), 300)).rejects.toThrow('did not shut down within 0.3 seconds');
    const cancel = new AbortController();
    const waiting = lxc.driver.shutdown(ref('deaf'), 60_000, cancel.signal);
    cancel.abort(new Error('cancelled'));
    await expect(waiting).rejects.toThrow('cancelled');
    expect(lxc.driver.state('deaf').status).toBe('Running');
    await lxc.driver.kill(ref('deaf'));
  });

  it('notices a guest that ends or reboots by itself', async () => {
    await lxc.driver.start(lxc.spec('c1'));
    await ready('c1');
    lxc.events.length = 0;
    const { pid } = lxc.driver.state('c1');
    await lxc.exec('c1', ['reboot']);
    await until('the reboot', () => lxc.events.some((event) => event.type === 'rebooted'));
    expect(lxc.driver.state('c1').status).toBe('Running');
    expect(lxc.driver.state('c1').pid).not.toBe(pid);
    await until(
      'the second boot',
      async () => (await lxc.driver.consoleLog(ref('c1'))).toString().match(/tiny: ready[^]*tiny: ready/) !== null,
    );
    await lxc.exec('c1', ['poweroff']);
    await until('the end', () => lxc.driver.state('c1').status === 'Stopped');
    expect(lxc.events.splice(0)).toEqual([
      { key: 'c1', type: 'rebooted' },
      { key: 'c1', type: 'stopped' },
    ]);
  });

  it('freezes and thaws', async () => {
    await lxc.driver.start(lxc.spec('c1'));
    await lxc.driver.freeze(ref('c1'));
    expect(lxc.driver.state('c1').status).toBe('Frozen');
    await expect(lxc.exec('c1', ['true'])).rejects.toThrow('frozen');
    await lxc.driver.unfreeze(ref('c1'));
    expect((await lxc.exec('c1', ['true'])).code).toBe(0);
    await lxc.driver.freeze(ref('c1'));
    await lxc.driver.kill(ref('c1'));
    expect(lxc.cgroups()).toEqual([]);
  });

  it('reports why a start failed and leaves nothing', async () => {
    const spec = lxc.spec('broken', { rawLxc: 'lxc.init.cmd = /no/such/init' });
    const error = await lxc.driver.start(spec).catch((reason: unknown) => reason);
    expect(isKeelsonError(error, 'internal')).toBe(true);
    expect(String(error)).toContain('/no/such/init');
    expect(lxc.driver.state('broken').status).toBe('Stopped');
    expect(lxc.cgroups()).toEqual([]);
    const cancelled = lxc.driver.start(lxc.spec('broken'), AbortSignal.abort(new Error('cancelled')));
    await expect(cancelled).rejects.toThrow('cancelled');
  });

  it('takes back a start that is cancelled half way', async () => {
    const cancel = new AbortController();
    const starting = lxc.driver.start(lxc.spec('late'), cancel.signal);
    setTimeout(() => cancel.abort(new Error('cancelled')), 15);
    const outcome = await starting.catch((reason: unknown) => reason);
    if (outcome instanceof Error) expect(outcome.message).toBe('cancelled');
    await lxc.driver.kill(ref('late'));
    await until('no cgroup', () => lxc.cgroups().length === 0);
  });

  it('keeps the console log, and clears it', async () => {
    await lxc.driver.start(lxc.spec('c1'));
    await ready('c1');
    await lxc.driver.clearConsoleLog(ref('c1'));
    expect((await lxc.driver.consoleLog(ref('c1'))).length).toBe(0);
    await lxc.exec('c1', ['sh', '-c', 'echo after >/dev/console']);
    await until('new output', async () => (await lxc.driver.consoleLog(ref('c1'))).toString() === 'after\r\n');
    await lxc.driver.kill(ref('c1'));
    await lxc.driver.forget(ref('c1'));
    expect(existsSync(join(lxc.lxcPath, 'c1'))).toBe(false);
    expect((await lxc.driver.consoleLog(ref('c1'))).length).toBe(0);
  });

  it('confines each guest with an AppArmor profile of its own, which goes with it', async ({ skip }) => {
    if (readHostFacts(readCgroupLayout(), undefined).apparmor !== 'generated')
      skip('the host has no AppArmor with its parser');
    const loaded = () => readFileSync('/sys/kernel/security/apparmor/profiles', 'utf8');
    const { pid } = await lxc.driver.start(lxc.spec('c3'));
    const isSleeper = (entry: string): boolean => {
      try {
        const inside = readFileSync(`/proc/${entry}/cgroup`, 'utf8').includes('payload.c3');
        return inside && readFileSync(`/proc/${entry}/cmdline`, 'utf8').split('\0')[1] === '600';
      } catch {
        return false; // it has ended
      }
    };
    expect(readFileSync(`/proc/${pid}/attr/current`, 'utf8')).toMatch(/^lxc-c3_.*\(enforce\)/);
    // The guest itself sees its own side of the profile only.
    const sleeper = lxc.exec('c3', ['sleep', '600']);
    const commands = () => readdirSync('/proc').filter((entry) => /^\d+$/.test(entry) && isSleeper(entry));
    const [command = ''] = await until('the command', () => commands().length > 0 && commands());
    expect(readFileSync(`/proc/${command}/attr/current`, 'utf8')).toMatch(/^lxc-c3_.*\(enforce\)/);
    // Whatever a guest may do in its namespaces, these files are not for it.
    expect((await lxc.exec('c3', ['sh', '-c', 'echo h > /proc/sysrq-trigger'])).code).not.toBe(0);
    expect(loaded()).toContain('lxc-c3_');
    await lxc.driver.kill(ref('c3'));
    await sleeper;
    await until('the profile to go', () => !loaded().includes('lxc-c3_'));
  });

  it('runs privileged, nested and read-only guests', async () => {
    await lxc.driver.start(lxc.spec('priv', { privileged: true, idRange: undefined }));
    expect((await lxc.exec('priv', ['cat', '/proc/self/uid_map'])).stdout.trim().split(/\s+/)[1]).toBe('0');
    expect((await lxc.exec('priv', ['dd', 'if=/dev/vda', 'of=/dev/null', 'count=1'])).code).not.toBe(0);
    expect((await lxc.exec('priv', ['sh', '-c', 'mknod /tmp/d b 254 0 && head -c1 /tmp/d'])).code).not.toBe(0);
    await lxc.driver.kill(ref('priv'));
    const nested = lxc.spec('nest', { nesting: true });
    await lxc.driver.start(nested);
    const unshare = await lxc.exec('nest', ['unshare', '-Urmpf', 'mount', '-t', 'proc', 'proc', '/proc']);
    expect(unshare).toMatchObject({ code: 0, stderr: '' });
    await lxc.driver.kill(ref('nest'));
    const root = lxc.spec('rdonly');
    await lxc.driver.start({ ...root, rootfs: { ...root.rootfs, readOnly: true } });
    expect((await lxc.exec('rdonly', ['touch', '/etc/x'])).stderr).toContain('Read-only');
    await lxc.driver.kill(ref('rdonly'));
  });
});
