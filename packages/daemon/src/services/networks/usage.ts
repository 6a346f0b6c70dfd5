import type { Reservation } from '../../drivers/network/contract.ts';
import type { Collection } from '../../state/collection.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import { expandDevices } from '../instances/plan/expand.ts';
import { projectUrl } from '../projects/scope.ts';

type Devices = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Network a device plugs into: `network`, or the `parent` of an old-style nic. */
export function networkOf(device: Readonly<Record<string, string>>): string | undefined {
  if (device['type'] !== 'nic') return undefined;
  return device['network'] || device['parent'] || undefined;
}

/** What one instance record has to do with networks. */
interface Plug {
  readonly url: string;
  readonly networks: readonly string[];
  readonly reservations: readonly { readonly network: string; readonly reservation: Reservation }[];
}

/**
 * Who uses which network, from the records in memory. The answer is kept until a record changes, so that a list of
 * networks costs nothing per network.
 */
export class NetworkUsage {
  readonly #instances: Collection<InstanceRecord>;
  readonly #profiles: Collection<ProfileRecord>;
  #cached:
    | { instances: number; profiles: number; users: Map<string, string[]>; reservations: Map<string, Reservation[]> }
    | undefined;
  /** By record, which never changes, as long as no profile does: one new instance among a thousand costs one. */
  #plugs = new WeakMap<InstanceRecord, Plug>();

  constructor(instances: Collection<InstanceRecord>, profiles: Collection<ProfileRecord>) {
    this.#instances = instances;
    this.#profiles = profiles;
  }

  /** URLs of the profiles and instances that use the network, as `used_by` shows them. */
  users(network: string): readonly string[] {
    return this.#index().users.get(network) ?? [];
  }

  /** Nics on the network that DHCP should know: those with a hardware address. */
  reservations(network: string): readonly Reservation[] {
    return this.#index().reservations.get(network) ?? [];
  }

  #index(): { users: Map<string, string[]>; reservations: Map<string, Reservation[]> } {
    const now = { instances: this.#instances.revision, profiles: this.#profiles.revision };
    if (this.#cached?.instances === now.instances && this.#cached.profiles === now.profiles) return this.#cached;
    const users = new Map<string, string[]>();
    const reservations = new Map<string, Reservation[]>();
    for (const { value } of this.#profiles.list()) {
      for (const network of networksOf(value.devices)) push(users, network, url('profiles', value.project, value.name));
    }
    if (this.#cached?.profiles !== now.profiles) this.#plugs = new WeakMap();
    for (const { value } of this.#instances.list()) {
      const plug = this.#plugOf(value);
      for (const network of plug.networks) push(users, network, plug.url);
      for (const { network, reservation } of plug.reservations) push(reservations, network, reservation);
    }
    this.#cached = { ...now, users, reservations };
    return this.#cached;
  }

  #plugOf(instance: InstanceRecord): Plug {
    const known = this.#plugs.get(instance);
    if (known !== undefined) return known;
    const profiles = instance.profiles.flatMap(
      (name) => this.#profiles.get(`${instance.project}/${name}`)?.value ?? [],
    );
    const devices = expandDevices(instance.devices, profiles);
    const plug = {
      url: url('instances', instance.project, instance.name),
      networks: [...networksOf(devices)],
      reservations: reservationsOf(instance, devices),
    };
    this.#plugs.set(instance, plug);
    return plug;
  }
}

function reservationsOf(instance: InstanceRecord, devices: Devices): Plug['reservations'] {
  return Object.entries(devices).flatMap(([name, device]) => {
    const network = networkOf(device);
    const hwaddr = device['hwaddr'] || instance.config[`volatile.${name}.hwaddr`];
    if (network === undefined || hwaddr === undefined || hwaddr === '') return [];
    const [ipv4, ipv6] = [address(device['ipv4.address']), address(device['ipv6.address'])];
    return [{ network, reservation: { instance: instance.name, project: instance.project, hwaddr, ipv4, ipv6 } }];
  });
}

function address(value: string | undefined): string | undefined {
  return value === undefined || value === '' || value === 'none' ? undefined : value;
}

function networksOf(devices: Devices): Set<string> {
  return new Set(
    Object.values(devices)
      .map(networkOf)
      .filter((name) => name !== undefined),
  );
}

function push<T>(map: Map<string, T[]>, key: string, value: T): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
}

function url(noun: string, project: string, name: string): string {
  return projectUrl(`/1.0/${noun}/${encodeURIComponent(name)}`, project);
}
