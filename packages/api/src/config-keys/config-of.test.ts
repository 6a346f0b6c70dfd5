import { describe, expectTypeOf, test } from 'vitest';
import type { DeviceConfig, InstanceConfig, NetworkConfig, ServerConfig, StoragePoolConfig } from '../config-keys.ts';

describe('config types', () => {
  test('know the keys of their tables', () => {
    expectTypeOf<InstanceConfig>().toHaveProperty('limits.cpu');
    expectTypeOf<NetworkConfig>().toHaveProperty('ipv4.dhcp.ranges');
    expectTypeOf<StoragePoolConfig>().toHaveProperty('volume.snapshots.expiry');
    expectTypeOf<DeviceConfig>().toHaveProperty('security.mac_filtering');
    expectTypeOf<ServerConfig>().toHaveProperty('core.https_address');
  });

  test('take families of keys and plain maps of text', () => {
    expectTypeOf<{ 'user.anything': string; 'limits.memory': string }>().toExtend<InstanceConfig>();
    expectTypeOf<Record<string, string>>().toExtend<InstanceConfig>();
    expectTypeOf<InstanceConfig>().toExtend<Record<string, string>>();
  });

  test('refuse values that are no text', () => {
    expectTypeOf<{ 'limits.cpu': number }>().not.toExtend<InstanceConfig>();
  });
});
