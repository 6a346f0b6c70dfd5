import { describe, expect, test } from 'vitest';
import {
  allConfigTables,
  configurationMetadata,
  deviceTableOf,
  findKey,
  instanceConfig,
  networkConfig,
  nicConfig,
  profileContext,
  projectConfig,
  serverConfig,
  storagePoolConfig,
  storageVolumeConfig,
  validateConfig,
  withDefaults,
} from '../config-keys.ts';

describe('validateConfig', () => {
  test('takes an empty config and unset values', () => {
    expect(validateConfig(instanceConfig, {})).toEqual([]);
    expect(validateConfig(instanceConfig, { 'limits.cpu': '' })).toEqual([]);
  });

  test('tells every problem, sorted by key', () => {
    expect(validateConfig(instanceConfig, { zork: '1', 'limits.cpu': 'x', 'boot.autostart': 'maybe' })).toEqual([
      { key: 'boot.autostart', message: 'Invalid value for a boolean "maybe"' },
      { key: 'limits.cpu', message: 'Invalid CPU limit syntax' },
      { key: 'zork', message: 'Unknown configuration key: zork' },
    ]);
  });

  test.each([
    [
      projectConfig,
      { 'limits.cpu': '-1' },
      'Invalid project configuration key "limits.cpu" value: Invalid value for uint32 "-1": strconv.ParseUint: parsing "-1": invalid syntax',
    ],
    [projectConfig, { zork: '1' }, 'Invalid project configuration key "zork"'],
    [serverConfig, { zork: '1' }, "cannot set 'zork' to '1': unknown key"],
    [
      serverConfig,
      { 'core.https_allowed_credentials': 'x' },
      "cannot set 'core.https_allowed_credentials' to 'x': invalid boolean",
    ],
    [networkConfig('bridge'), { zork: '1' }, 'Invalid option for network "n" option "zork"'],
    [
      networkConfig('bridge'),
      { 'ipv4.address': '10.0.0.0/24' },
      'Invalid value for network "n" option "ipv4.address": Not a usable IPv4 address "10.0.0.0/24"',
    ],
    [storagePoolConfig('dir'), { size: '1GiB' }, 'Invalid option "size"'],
    [storagePoolConfig('btrfs'), { size: '1G' }, 'Invalid value for option "size": Invalid value: 1G'],
    [storagePoolConfig('btrfs'), { 'volume.size': 'x' }, 'Invalid value for option "volume.size": Invalid value: x'],
    [storageVolumeConfig('dir'), { zork: '1' }, 'Invalid option for volume "n" option "zork"'],
    [
      nicConfig('bridged'),
      { hwaddr: 'x' },
      'Invalid value for device option "hwaddr": Invalid MAC address, must be 6 bytes of hex separated by colons',
    ],
  ])('speaks LXD’s words: %#', (table, config, message) => {
    expect(validateConfig(table, config, { name: 'n' }).map((problem) => problem.message)).toEqual([message]);
  });

  test('limits keys to the instance type', () => {
    const config = { 'security.secureboot': 'true' };
    expect(validateConfig(instanceConfig, config, { instanceType: 'virtual-machine' })).toEqual([]);
    expect(validateConfig(instanceConfig, config, { instanceType: 'container' })).toMatchObject([
      { message: 'Unknown configuration key: security.secureboot' },
    ]);
  });

  test('keeps state of instances out of profiles', () => {
    expect(validateConfig(instanceConfig, { 'volatile.x.hwaddr': '1' }, profileContext)).toMatchObject([
      { message: 'Volatile keys can only be set on instances' },
    ]);
  });

  test('refuses line breaks where a line of a file would start', () => {
    for (const config of [
      { 'environment.A': '1\nlxc.x = 2' },
      { 'linux.sysctl.a': '1\n' },
      { 'limits.kernel.nofile': '1\n2' },
    ]) {
      expect(validateConfig(instanceConfig, config)).toHaveLength(1);
    }
  });

  test('asks for required options', () => {
    const nic = nicConfig('routed');
    expect(validateConfig(nic, { type: 'nic', nictype: 'routed' })).toEqual([]);
    expect(validateConfig(nicConfig('ipvlan'), { type: 'nic' })).toEqual([
      { key: 'parent', message: 'Invalid value for device option "parent": Required value' },
    ]);
  });
});

describe('findKey', () => {
  test('prefers the exact row to the family', () => {
    expect(findKey(instanceConfig, 'volatile.uuid')?.key).toBe('volatile.uuid');
    expect(findKey(instanceConfig, 'volatile.eth0.uuid')?.key).toBe('volatile.*.uuid');
    expect(findKey(instanceConfig, 'volatile.a.b.hwaddr')?.key).toBe('volatile.*.hwaddr');
    expect(findKey(instanceConfig, 'volatile.eth0.zork')).toBeUndefined();
    expect(findKey(instanceConfig, 'user.')).toBeUndefined();
  });
});

describe('deviceTableOf', () => {
  test('picks by type, nictype and network', () => {
    expect(deviceTableOf({ type: 'disk' })?.noun).toBe('device-disk');
    expect(deviceTableOf({ type: 'nic', nictype: 'macvlan' })?.noun).toBe('device-nic-macvlan');
    expect(deviceTableOf({ type: 'nic', network: 'br0' }, 'bridged')?.noun).toBe('device-nic-bridged');
  });

  test('knows no inherited names', () => {
    expect(deviceTableOf({ type: 'constructor' })).toBeUndefined();
    expect(deviceTableOf({ type: 'nic', nictype: 'toString' })).toBeUndefined();
    expect(deviceTableOf({})).toBeUndefined();
  });
});

describe('tables', () => {
  test('hold each key once, with one line of documentation', () => {
    for (const { noun, keys } of allConfigTables) {
      const names = keys.map((row) => `${noun} ${row.key}`);
      expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
      expect(keys.filter((row) => !/^\S.*\.$/.test(row.doc) || row.key.split('*').length > 2)).toEqual([]);
    }
  });

  test('have defaults of their own type, or words about them', () => {
    const wordy = /%|name|address|domain|time|generated|DHCP|space|all |1500|false;|cloud-config/;
    const wrong = allConfigTables.flatMap(({ noun, keys }) =>
      keys
        .filter((row) => row.default !== undefined && !wordy.test(row.default))
        .filter((row) => row.type.check(row.default ?? '') !== undefined)
        .map((row) => `${noun} ${row.key}`),
    );
    expect(wrong).toEqual([]);
  });

  test('appear in the metadata', () => {
    const { configs } = configurationMetadata();
    expect(Object.keys(configs)).toHaveLength(allConfigTables.length);
    expect(configs['instance']?.['limits.cpu.priority']).toMatchObject({ liveupdate: 'yes', condition: 'container' });
  });

  test('withDefaults keeps what is set', () => {
    expect(withDefaults(storagePoolConfig('dir'), { 'rsync.bwlimit': '5' })).toMatchObject({
      'rsync.bwlimit': '5',
      'rsync.compression': 'true',
    });
  });
});
