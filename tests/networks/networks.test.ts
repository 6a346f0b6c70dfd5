import { startDaemon, subnets, type TestDaemon, type TestSubnet } from '@keelson/testkit';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const exec = promisify(execFile);

describe('networks', () => {
  let daemon: TestDaemon;
  let net: TestSubnet;
  let name: string;
  const lxc = (...args: string[]): Promise<{ stdout: string }> =>
    exec('lxc', args, { env: { ...process.env, LXD_DIR: daemon.stateDir, LXD_CONF: `${daemon.stateDir}/lxc-conf` } });

  beforeAll(async () => {
    net = subnets.take();
    name = net.bridge;
    daemon = await startDaemon();
  });

  afterAll(async () => {
    await daemon?.[Symbol.asyncDispose]();
    await net?.[Symbol.asyncDispose]();
  });

  it('lxc network works unmodified', async () => {
    await lxc('network', 'create', name, `ipv4.address=${net.address}`, 'ipv4.nat=true', 'ipv6.address=none');
    expect((await lxc('network', 'list', '--format', 'csv')).stdout).toMatch(
      new RegExp(`^${name},bridge,YES,${net.address},none,`, 'm'),
    );
    await lxc('network', 'set', name, 'ipv4.dhcp.expiry', '5m');
    expect((await lxc('network', 'get', name, 'ipv4.dhcp.expiry')).stdout.trim()).toBe('5m');
    await lxc('network', 'unset', name, 'ipv4.dhcp.expiry');
    expect((await lxc('network', 'show', name)).stdout).toContain(`name: ${name}`);
    expect((await lxc('network', 'info', name)).stdout).toContain('MTU: 1500');
    expect((await lxc('network', 'list-leases', name, '--format', 'csv')).stdout).toContain(`${name}.gw`);
  });

  it('is there again after the daemon was killed, with the same DHCP server', async () => {
    const servers = async (): Promise<string[]> =>
      (await exec('pgrep', ['-f', `dnsmasq.*--interface=${name} `])).stdout.trim().split('\n');
    const before = await servers();
    await daemon.kill();
    await daemon.start();
    expect(await servers()).toEqual(before);
    const { metadata } = (await daemon.request<{ status: string }>('GET', `/1.0/networks/${name}`)).body;
    expect(metadata.status).toBe('Created');
  });

  it('a change that cannot work leaves the network as it was', async () => {
    await expect(lxc('network', 'set', name, 'raw.dnsmasq', 'nonsense')).rejects.toThrow(/cannot start/);
    expect((await lxc('network', 'get', name, 'raw.dnsmasq')).stdout.trim()).toBe('');
    expect((await exec('pgrep', ['-f', `dnsmasq.*--interface=${name} `])).stdout).not.toBe('');
  });

  it('is renamed and deleted without a trace', async () => {
    const renamed = `${name}r`;
    await lxc('network', 'rename', name, renamed);
    expect((await exec('ip', ['-br', 'link'])).stdout).toContain(`${renamed} `);
    await lxc('network', 'delete', renamed);
    expect((await exec('ip', ['-br', 'link'])).stdout).not.toContain(name);
    expect((await exec('nft', ['list', 'tables'])).stdout).not.toContain(`keelson.${name}`);
  });
});
