import type { Network as NetworkRecord, NetworkLease, NetworkState } from '@keelson/api';
import { Manager } from '../manager.ts';
import { defineAttributes, Model, type ModelContext } from '../model.ts';

const FIELDS = ['name', 'description', 'type', 'config', 'managed', 'used_by', 'status', 'locations'] as const;
const WRITABLE = ['description', 'config'] as const;

/** A network of the server; the host's own interfaces are shown too, with `managed` false. */
export class Network extends Model<NetworkRecord> {
  declare readonly name: string;
  declare description: string;
  declare readonly type: string;
  declare config: Record<string, string>;
  declare readonly managed: boolean;
  declare readonly used_by: readonly string[];
  declare readonly status: string;
  declare readonly locations: readonly string[];

  constructor(context: ModelContext, name: string, record: Partial<NetworkRecord>, populated: boolean) {
    const path = context.connection.path('networks', name);
    super(context, { path, label: `Network "${name}"`, writable: WRITABLE }, { ...record, name }, populated);
  }

  /** Returns the renamed network; this object is left as it was. `POST /1.0/networks/<name>` @throws APIException while in use */
  async rename(newName: string): Promise<Network> {
    this.assertAlive();
    await this.connection.request('POST', this.path, { json: { name: newName } });
    return new Network(this.context, newName, {}, false).sync();
  }

  /** Addresses, counters, link state. `GET /1.0/networks/<name>/state` */
  async state(): Promise<NetworkState> {
    return this.connection.get<NetworkState>(`${this.path}/state`);
  }

  /** DHCP leases. `GET /1.0/networks/<name>/leases` */
  async leases(): Promise<NetworkLease[]> {
    return this.connection.get<NetworkLease[]>(`${this.path}/leases`);
  }
}
defineAttributes<NetworkRecord>(Network, FIELDS, WRITABLE);

/** `client.networks` */
export class NetworkManager extends Manager<NetworkRecord, Network, 'name'> {
  constructor(context: ModelContext) {
    super(context, {
      path: context.connection.path('networks'),
      fields: FIELDS,
      key: 'name',
      make: (name, record, populated) => new Network(context, name, record, populated),
    });
  }

  /** `POST /1.0/networks` @throws APIException */
  async create(
    name: string,
    options: { readonly description?: string; readonly type?: string; readonly config?: Record<string, string> } = {},
  ): Promise<Network> {
    await this.context.connection.request('POST', this.definition.path, { json: { name, ...options } });
    return this.get(name);
  }
}
