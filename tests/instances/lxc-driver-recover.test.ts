import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { named, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commandLine, identify, isOfThisHost, listProcesses } from '../../packages/daemon/src/host/proc.ts';
import { host, LxcHarness, ref } from './lxc-harness.ts';

describe.skipIf(!host.ok)(named('lxc driver: after a crash', host), () => {
  let lxc: LxcHarness;
  beforeAll(async () => {
    lxc = await LxcHarness.create();
  });
  afterAll(() => lxc[Symbol.asyncDispose]());

  const monitorPid = (name: string): number => Number(readFileSync(join(lxc.lxcPath, name, 'pid'), 'utf8'));

  it('finds guests that run, ends those without a record, and notices later ends', async () => {
    const kept = await lxc.driver.start(lxc.spec('kept'));
    const orphan = await lxc.driver.start(lxc.spec('orphan'));
    await lxc.driver.start(lxc.spec('frozen'));
    await lxc.driver.freeze(ref('frozen'));
    const driver = await lxc.restartDriver();
    expect(driver.state('kept').status).toBe('Stopped');
    await driver.recover([ref('kept'), ref('frozen'), ref('stopped')]);
    expect(driver.state('kept')).toEqual(kept);
    expect(driver.state('frozen').status).toBe('Frozen');
    expect(driver.state('orphan').status).toBe('Stopped');
    expect(identify(orphan.pid)).toBeUndefined();
    expect(existsSync(join(lxc.lxcPath, 'orphan'))).toBe(false);
    expect(lxc.cgroups().filter((path) => path.includes('orphan'))).toEqual([]);
    expect((await lxc.exec('kept', ['true'])).code).toBe(0);
    expect((await driver.metrics('kept'))?.processes).toBeGreaterThan(0);
    await driver.kill(ref('frozen'));
    lxc.events.length = 0;
    process.kill(kept.pid, 'SIGKILL');
    await until('the end to be noticed', () => driver.state('kept').status === 'Stopped');
    expect(lxc.events).toEqual([{ key: 'kept', type: 'stopped' }]);
    expect(lxc.cgroups()).toEqual([]);
  });

  it('cleans up after a monitor that was killed', async () => {
    const { pid } = await lxc.driver.start(lxc.spec('c1'));
    process.kill(monitorPid('c1'), 'SIGKILL');
    await until('the sweep', () => lxc.driver.state('c1').status === 'Stopped');
    expect(identify(pid)).toBeUndefined();
    expect(lxc.cgroups()).toEqual([]);
    await lxc.driver.start(lxc.spec('c1'));
    process.kill(monitorPid('c1'), 'SIGKILL');
    await lxc.driver.kill(ref('c1')); // does not wait for the sweep
    expect(lxc.cgroups()).toEqual([]);
  });

  it('cleans up after a monitor that was killed while no daemon ran', async () => {
    await lxc.driver.start(lxc.spec('c1'));
    await lxc.driver.start(lxc.spec('gone'));
    const monitors = [monitorPid('c1'), monitorPid('gone')];
    const driver = await lxc.restartDriver();
    for (const pid of monitors) process.kill(pid, 'SIGKILL');
    await until('the monitors to end', () => monitors.every((pid) => identify(pid) === undefined));
    await driver.recover([ref('c1')]);
    expect(driver.state('c1').status).toBe('Stopped');
    expect(lxc.cgroups()).toEqual([]);
    expect(existsSync(join(lxc.lxcPath, 'gone'))).toBe(false);
    expect((await driver.start(lxc.spec('c1'))).status).toBe('Running');
    await driver.kill(ref('c1'));
  });

  it('ends the commands of the dead daemon', async () => {
    await lxc.driver.start(lxc.spec('c1'));
    const command = await lxc.driver.exec(ref('c1'), {
      ...{ command: ['sleep', '4712'], environment: {}, user: 0, group: 0, cwd: '', terminal: undefined },
    });
    await until('the command', () => listProcesses().some((pid) => commandLine(pid).join(' ') === 'sleep 4712'));
    const driver = await lxc.restartDriver();
    await driver.recover([ref('c1')]);
    expect(await command.exited).toBe(137);
    expect(driver.state('c1').status).toBe('Running');
    await driver.kill(ref('c1'));
  });

  it('does not believe a process of a guest that looks like a monitor', async () => {
    const { pid } = await lxc.driver.start(lxc.spec('c1'));
    const title = `[lxc monitor] ${lxc.lxcPath} fake/sleep`; // busybox goes by what follows the last slash
    await lxc.exec('c1', ['sh', '-c', `(exec -a '${title}' sleep 100) <&- >/dev/null 2>&1 &`]);
    const found = () => listProcesses().find((one) => commandLine(one)[0] === title && !isOfThisHost(one));
    const impostor = await until('the impostor', found);
    const driver = await lxc.restartDriver();
    await driver.recover([ref('c1'), ref('fake/sleep')]);
    expect(driver.state('fake/sleep').status).toBe('Stopped');
    expect(identify(impostor)).toBeDefined();
    expect(driver.state('c1').pid).toBe(pid);
    await driver.kill(ref('c1'));
  });
});
