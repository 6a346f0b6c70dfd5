import type { Network as NetworkRecord, NetworkLease, NetworkState } from '@keelson/api';
import { Manager } from '../manager.ts';
import { type CallOptions, defineAttributes, Model, type ModelContext } from '../model.ts';

const FIELDS = ['name', 'description', 'type', 'config', 'managed', 'used_by', 'status', 'locations'] as const;
const WRITABLE = ['description', 'config'] as const;

/** A network of the server; the host's own interfaces are shown too, with `managed` false. */
export class Network extends Model<NetworkRecord> {
  /** Name of the network and of its interface. */
  declare readonly name: NetworkRecord['name'];
  /** For people. */
  declare description: NetworkRecord['description'];
  /** `bridge`, `macvlan`, … and `physical`, `loopback`, … of the host's own. */
  declare readonly type: NetworkRecord['type'];
  /** Config keys, all text. */
  declare config: NetworkRecord['config'];
  /** Whether the server made it. */
  declare readonly managed: NetworkRecord['managed'];
  /** URL paths of what uses it. */
  declare readonly used_by: NetworkRecord['used_by'];
  /** `Created`, `Pending`, `Errored`; empty for an interface of the host. */
  declare readonly status: NetworkRecord['status'];
  /** Cluster members it is on. */
  declare readonly locations: NetworkRecord['locations'];

  /** @internal */
  constructor(context: ModelContext, name: string, record: Partial<NetworkRecord>, populated: boolean) {
    super(context, definitionOf(context, name), { ...record, name }, populated);
  }

  /** Returns the renamed network, which is this object. `POST /1.0/networks/<name>` @throws APIException while in use */
  async rename(newName: string, options: CallOptions = {}): Promise<this> {
    await this.run('POST', this.path, { json: { name: newName } }, { wait: true, signal: options.signal });
    this.moved(definitionOf(this.context, newName), { name: newName });
    return this.sync(options);
  }

  /** Addresses, counters, link state. `GET /1.0/networks/<name>/state` */
  async state(options: CallOptions = {}): Promise<NetworkState> {
    return this.connection.get<NetworkState>(`${this.path}/state`, { signal: options.signal });
  }

  /** DHCP leases. `GET /1.0/networks/<name>/leases` */
  async leases(options: CallOptions = {}): Promise<NetworkLease[]> {
    return this.connection.get<NetworkLease[]>(`${this.path}/leases`, { signal: options.signal });
  }
}
defineAttributes<NetworkRecord>(Network, FIELDS, WRITABLE);

function definitionOf(context: ModelContext, name: string): { path: string; label: string; writable: typeof WRITABLE } {
  return { path: context.connection.path('networks', name), label: `Network "${name}"`, writable: WRITABLE };
}

/** What a new network is like. */
export interface NetworkOptions {
  /** For people. */
  readonly description?: string;
  /** `bridge` (default), `macvlan`, … */
  readonly type?: string;
  /** Config keys, all text. */
  readonly config?: Record<string, string>;
}

/** `client.networks` */
export class NetworkManager extends Manager<NetworkRecord, Network, 'name'> {
  /** @internal */
  constructor(context: ModelContext) {
    super(context, {
      path: context.connection.path('networks'),
      fields: FIELDS,
      key: 'name',
      make: (name, record, populated, scoped = context) => new Network(scoped, name, record, populated),
    });
  }

  /** `POST /1.0/networks` @throws APIException */
  async create(name: string, definition: NetworkOptions = {}, options: CallOptions = {}): Promise<Network> {
    const request = { json: { name, ...definition }, signal: options.signal };
    await this.context.connection.request('POST', this.definition.path, request);
    return this.get(name, options);
  }
}
