import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import { BridgeDriver } from '../../packages/daemon/src/drivers/network/bridge/bridge-driver.ts';
import { NftNicFilters } from '../../packages/daemon/src/drivers/network/nic-filter.ts';
import { SysfsInterfaces } from '../../packages/daemon/src/host/interfaces.ts';

const exec = promisify(execFile);
const id = process.pid % 1000;
const bridge = `kbt${id}`;
const second = Math.floor(id / 250) + 220;
const subnet = `10.${second}.${id % 250}`;
const namespace = `kbtns${id}`;
const hwaddr = '00:16:3e:0b:0b:01';

/** A guest in a network namespace: one end of a veth pair on the bridge. */
async function plugGuest(): Promise<void> {
  await exec('ip', ['netns', 'add', namespace]);
  await exec('ip', ['link', 'add', `${bridge}h`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace]);
  await exec('ip', ['link', 'set', 'dev', `${bridge}h`, 'master', bridge, 'up']);
  await exec('ip', ['-n', namespace, 'link', 'set', 'dev', 'eth0', 'address', hwaddr, 'up']);
}

const inGuest = (...command: string[]): Promise<{ stdout: string }> =>
  exec('ip', ['netns', 'exec', namespace, 'busybox', ...command], { timeout: 30_000 });

describe('bridge driver', () => {
  let folder = '';
  const interfaces = new SysfsInterfaces();
  const driver = new BridgeDriver({
    interfaces,
    log: silentLog,
    random: (limit) => Math.floor(Math.random() * limit),
    seed: 'test',
  });
  const config = { 'ipv4.address': `${subnet}.1/24`, 'ipv4.nat': 'true', 'ipv6.address': 'none' };
  const spec = (): { name: string; config: Record<string, string>; path: string } => ({
    name: bridge,
    config,
    path: join(folder, bridge),
  });

  /** What the guest's DHCP client is given now. */
  const lease = async (): Promise<string> => {
    const script = join(folder, 'udhcpc.sh');
    const found = join(folder, 'lease');
    await writeFile(script, `#!/bin/sh\n[ "$1" = bound ] && echo "$ip $router $dns $domain" > ${found}\nexit 0\n`, {
      mode: 0o755,
    });
    await inGuest('udhcpc', '-i', 'eth0', '-n', '-q', '-f', '-t', '20', '-T', '1', '-s', script);
    return (await readFile(found, 'utf8')).trim();
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'keelson-bridge-'));
    await exec('chmod', ['711', folder]);
  });

  afterAll(async () => {
    await new NftNicFilters().remove(`${bridge}h`).catch(() => undefined);
    await exec('ip', ['netns', 'del', namespace]).catch(() => undefined);
    await driver.stop(spec()).catch(() => undefined);
    await driver.dispose();
    await rm(folder, { recursive: true, force: true });
  });

  it('brings a guest an address, a gateway and its name', async () => {
    await driver.start(spec(), [
      { instance: 'web', project: 'default', hwaddr, ipv4: `${subnet}.77`, ipv6: undefined },
    ]);
    await plugGuest();
    expect(await lease()).toBe(`${subnet}.77 ${subnet}.1 ${subnet}.1 keelson`);
    await exec('ip', ['-n', namespace, 'addr', 'add', 'dev', 'eth0', `${subnet}.77/24`]);
    await inGuest('ping', '-c', '1', '-W', '5', `${subnet}.1`);
    expect((await inGuest('nslookup', 'web.keelson', `${subnet}.1`)).stdout).toContain(`${subnet}.77`);
    expect(await driver.leases(spec(), [])).toContainEqual({
      hostname: 'web',
      hwaddr,
      address: `${subnet}.77`,
      type: 'dynamic',
    });
  });

  it('learns a new reservation without a restart', async () => {
    const before = await readFile(join(folder, bridge, 'dnsmasq.pid'), 'utf8');
    await driver.reserve(spec(), [
      { instance: 'renamed', project: 'default', hwaddr, ipv4: `${subnet}.78`, ipv6: undefined },
    ]);
    await expect.poll(lease, { timeout: 30_000 }).toBe(`${subnet}.78 ${subnet}.1 ${subnet}.1 keelson`);
    expect((await inGuest('nslookup', 'renamed.keelson', `${subnet}.1`)).stdout).toContain(`${subnet}.78`);
    expect(await readFile(join(folder, bridge, 'dnsmasq.pid'), 'utf8')).toBe(before);
  });

  it('keeps its DHCP server when it is started again with the same config', async () => {
    const before = await readFile(join(folder, bridge, 'dnsmasq.pid'), 'utf8');
    await driver.start(spec(), []);
    expect(await readFile(join(folder, bridge, 'dnsmasq.pid'), 'utf8')).toBe(before);
  });

  it('drops what a filtered nic sends under another address', async () => {
    await new NftNicFilters().apply({ hostName: `${bridge}h`, hwaddr, ipv4: `${subnet}.77`, ipv6: undefined });
    await inGuest('ping', '-c', '1', '-W', '5', `${subnet}.1`);
    await exec('ip', ['-n', namespace, 'addr', 'add', 'dev', 'eth0', `${subnet}.99/24`]);
    await expect(inGuest('ping', '-I', `${subnet}.99`, '-c', '1', '-W', '1', `${subnet}.1`)).rejects.toThrow();
    await exec('ip', ['-n', namespace, 'link', 'set', 'dev', 'eth0', 'address', '00:16:3e:0b:0b:02']);
    await expect(inGuest('ping', '-c', '1', '-W', '1', `${subnet}.1`)).rejects.toThrow();
    await new NftNicFilters().remove(`${bridge}h`);
    await inGuest('ping', '-c', '1', '-W', '5', `${subnet}.1`);
  });

  it('shows itself as LXD does', async () => {
    const state = await driver.state(bridge);
    expect(state).toMatchObject({
      type: 'broadcast',
      state: 'up',
      mtu: 1500,
      bridge: { stp: false, forwardDelay: 1500, upperDevices: [`${bridge}h`] },
    });
    expect(state?.addresses).toContainEqual({ family: 'inet', address: `${subnet}.1`, netmask: '24', scope: 'global' });
    expect(await interfaces.list()).toContainEqual({ name: bridge, type: 'bridge' });
    expect((await interfaces.list()).map(({ name }) => name)).not.toContain(`${bridge}h`);
  });

  it('refuses options that dnsmasq does not know and leaves the network as it was', async () => {
    const broken = {
      ...spec(),
      name: `${bridge}x`,
      path: join(folder, 'x'),
      config: { 'ipv4.address': `${subnet}.129/25`, 'raw.dnsmasq': 'nonsense' },
    };
    await expect(driver.start(broken, [])).rejects.toThrow(/cannot start: .*bad option/);
    expect(await driver.state(broken.name)).toBeUndefined();
    expect((await exec('nft', ['list', 'tables'])).stdout).not.toContain(`keelson.${broken.name}`);
  });

  it('leaves nothing behind', async () => {
    const pid = (await readFile(join(folder, bridge, 'dnsmasq.pid'), 'utf8')).trim();
    await driver.stop(spec());
    await driver.stop(spec());
    expect(await driver.state(bridge)).toBeUndefined();
    expect((await exec('nft', ['list', 'tables'])).stdout).not.toContain(`keelson.${bridge}`);
    expect(await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).toBe('');
  });
});
