import type { InstanceDriver } from '../drivers/instance/contract.ts';
import type { StorageDriver, StorageDriverInfo } from '../drivers/storage/contract.ts';
import { nftVersion } from '../host/tools/nft.ts';
import type { HostFacts } from '../services/server/contract.ts';

/** What the drivers say of themselves, for `environment` of `GET /1.0`. */
export type DriverFacts = Pick<
  HostFacts,
  | 'driver'
  | 'driver_version'
  | 'firewall'
  | 'lxc_features'
  | 'storage'
  | 'storage_version'
  | 'storage_supported_drivers'
>;

/** liblxc 5 has all of them. */
const LXC_FEATURES = [
  'cgroup2',
  'core_scheduling',
  'devpts_fd',
  'idmapped_mounts_v2',
  'mount_injection_file',
  'network_gateway_device_route',
  'network_ipvlan',
  'network_l2proxy',
  'network_phys_macvlan_mtu',
  'network_veth_router',
  'pidfd',
  'seccomp_allow_deny_syntax',
  'seccomp_notify',
  'seccomp_proxy_send_notify_fd',
];

/** Asks every driver once. A driver that cannot work here is left out, as LXD does. */
export async function driverFacts(
  instances: readonly Pick<InstanceDriver, 'probe'>[],
  storage: readonly Pick<StorageDriver, 'probe'>[],
): Promise<DriverFacts> {
  const [guests, pools, nft] = await Promise.all([
    Promise.all(instances.map((driver) => driver.probe())),
    Promise.all(storage.map((driver) => driver.probe())),
    nftVersion(),
  ]);
  const running = guests.filter(({ supported }) => supported);
  const usable = pools.filter(({ supported }) => supported);
  const join = (values: readonly string[]): string => values.join(' | ');
  return {
    driver: join(running.map(({ name }) => name)),
    driver_version: join(running.map(({ version }) => version)),
    firewall: nft === undefined ? 'none' : 'nftables',
    lxc_features: Object.fromEntries(LXC_FEATURES.map((name) => [name, 'true'])),
    storage: join(usable.map(({ name }) => name)),
    storage_version: join(usable.map(({ version }) => version)),
    storage_supported_drivers: usable.map(storageInfo),
  };
}

function storageInfo({ name, version, remote }: StorageDriverInfo): DriverFacts['storage_supported_drivers'][number] {
  return { Name: name, Version: version, Remote: remote };
}
