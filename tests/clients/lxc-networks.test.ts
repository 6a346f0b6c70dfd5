import { allOf, named, probePrograms, probeRoot, subnets, type TestSubnet, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LxcWorld } from './lxc-world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc', 'dnsmasq', 'nft'));

describe.skipIf(!probe.ok)(named('lxc and networks', probe), () => {
  let world: LxcWorld;
  let subnet: TestSubnet;

  beforeAll(async () => {
    subnet = subnets.take();
    world = await LxcWorld.open();
    await world.ok('launch', 'tiny', 'c1');
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    await subnet[Symbol.asyncDispose]();
  });

  const network = (...args: string[]): Promise<string> => world.ok('network', ...args);

  test('create, list, show, set, edit and info', async () => {
    const { bridge, address } = subnet;
    await network('create', bridge, `ipv4.address=${address}`, 'ipv6.address=none', '--type', 'bridge');
    expect(await world.fails('network', 'create', bridge)).toContain('The network already exists');
    expect(await world.fails('network', 'create', 'bad/name')).toContain('Error');
    expect(await network('list', '-f', 'csv')).toContain(`${bridge},bridge,YES,${address},none,,0,CREATED\n`);
    expect(await network('show', bridge)).toMatch(/type: bridge\nused_by: \[\]\nmanaged: true\nstatus: Created/);
    await network('set', bridge, 'user.x=1', 'ipv4.dhcp.expiry=2h');
    expect(await network('get', bridge, 'user.x')).toBe('1\n');
    await network('unset', bridge, 'user.x');
    expect(await network('show', bridge)).not.toContain('user.x');
    expect(await world.fails('network', 'set', bridge, 'foo=1')).toContain('option "foo"');
    await world.edit(['network'], (text) => text.replace('description: ""', 'description: mine'), bridge);
    expect(await network('show', bridge)).toContain('description: mine');
    expect(await network('info', bridge)).toMatch(/MTU: \d+\nState: up\nType: broadcast[^]*Bridge:\n +ID: /);
    expect(await network('info', 'lo')).toContain('Type: loopback');
    expect(await network('show', 'lo')).toContain('managed: false');
  });

  test('attach and detach', async () => {
    const { bridge } = subnet;
    await network('attach', bridge, 'c1', 'eth5', 'eth5');
    expect(await world.ok('exec', 'c1', 'ls', '/sys/class/net')).toContain('eth5');
    expect(await world.fails('network', 'delete', bridge)).toContain('in use');
    await network('detach', bridge, 'c1', 'eth5');
    expect(await world.ok('exec', 'c1', 'ls', '/sys/class/net')).not.toContain('eth5');
    await network('attach-profile', bridge, 'default', 'eth6', 'eth6');
    expect(await world.ok('profile', 'show', 'default')).toMatch(new RegExp(`(network|parent): ${bridge}\n`));
    expect(await network('show', bridge)).toMatch(/- \/1.0\/instances\/c1\n- \/1.0\/profiles\/default\n/);
    await network('detach-profile', bridge, 'default', 'eth6');
    expect(await network('show', bridge)).toContain('used_by: []');
  });

  test('leases', async () => {
    await until('the lease of c1', async () => /c1,/.test(await network('list-leases', world.bridge, '-f', 'csv')));
    expect(await network('list-leases', world.bridge, '-f', 'csv')).toMatch(/c1,[0-9a-f:]{17},10\.[\d.]+,DYNAMIC\n/i);
  });

  test('rename and delete', async () => {
    const renamed = `${subnet.bridge}x`;
    await network('rename', subnet.bridge, renamed);
    expect(await network('list', '-f', 'csv')).toContain(`${renamed},bridge,YES`);
    await network('delete', renamed);
    expect(await world.fails('network', 'show', renamed)).toMatch(/not found/i);
    expect(await world.fails('network', 'delete', world.bridge)).toContain('The network is currently in use');
  });

  test('what the server does not have is said by its extension', async () => {
    const { body } = await world.daemon.request<{ api_extensions: string[] }>('GET', '/1.0');
    for (const [noun, extension] of [
      ['acl', 'network_acl'],
      ['zone', 'network_dns'],
    ] as const) {
      if (body.metadata.api_extensions.includes(extension)) await network(noun, 'list');
      else expect(await world.fails('network', noun, 'list')).toContain(`required "${extension}" API extension`);
    }
  });
});
