import { Coalesce } from '../../core/coalesce.ts';
import { errors } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type {
  HostInterface,
  HostInterfaces,
  Lease,
  NetworkDriver,
  NetworkSpec,
} from '../../drivers/network/contract.ts';
import type { Collection, Entry } from '../../state/collection.ts';
import type { NetworkRecord } from '../../state/records/network.ts';
import type { Events, Requestor } from '../events/contract.ts';
import type { ChangeOptions } from '../profiles/contract.ts';
import type { ProjectGuard } from '../projects/contract.ts';
import { projectUrl } from '../projects/scope.ts';
import type { Intent, Intents } from '../intents/contract.ts';
import type { Operations } from '../operations/contract.ts';
import { checkNetworkName } from './names.ts';
import { clean, etagSource, isKnownType, managedView, type NetworkView, unmanagedView } from './network-views.ts';
import type { NetworkUsage } from './usage.ts';

// The words of `state` and `leases`.
export type { HostInterface, Lease } from '../../drivers/network/contract.ts';

export interface NetworkServiceOptions {
  readonly networks: Collection<NetworkRecord>;
  readonly usage: NetworkUsage;
  readonly drivers: ReadonlyMap<string, NetworkDriver>;
  readonly interfaces: HostInterfaces;
  readonly events: Events;
  readonly intents: Intents;
  readonly operations: Operations;
  readonly log: Log;
  /** Project whose networks a request for `project` sees. @throws not-found for an unknown project. */
  readonly projectFor: (project: string) => string;
  readonly guard: Pick<ProjectGuard, 'checkNewNetwork'>;
  /** Folder of a network's files. */
  readonly path: (name: string) => string;
}

export interface NetworkWritable {
  readonly config?: Readonly<Record<string, string>> | undefined;
  readonly description?: string | undefined;
}

interface NetworkIntent {
  readonly name: string;
  readonly type: string;
  readonly config: Readonly<Record<string, string>>;
  readonly id: string;
}

/** Managed networks, and the host's own interfaces read-only beside them. */
export class NetworkService {
  readonly #reserving = new Coalesce();
  readonly #options: NetworkServiceOptions;

  constructor(options: NetworkServiceOptions) {
    this.#options = options;
    options.intents.handle<NetworkIntent>('network-create', async ({ data }) => this.#undoCreate(data));
    options.intents.handle<NetworkIntent>('network-delete', async ({ data }) => this.#finishDelete(data));
    options.intents.handle<NetworkIntent>('network-rename', async ({ data }) => this.#undoCreate(data));
  }

  /** Brings every managed network up at daemon start; one that cannot is marked `Errored` and logged, the others go on. */
  async startAll(): Promise<void> {
    await Promise.all(this.#options.networks.list().map((entry) => this.#startOne(entry)));
  }

  async list(project: string): Promise<readonly NetworkView[]> {
    const managed = this.#managed(project).map((entry) => this.#view(entry.value));
    const names = new Set(managed.map((network) => network.name));
    const host = await this.#options.interfaces.list();
    return [
      ...managed,
      ...host.filter(({ name }) => !names.has(name)).map(({ name, type }) => this.#unmanaged(name, type)),
    ];
  }

  /** The record, and its ETag source. @throws not-found */
  async get(project: string, name: string): Promise<{ network: NetworkView; etag: readonly unknown[] }> {
    const entry = this.#entry(project, name);
    if (entry !== undefined) return { network: this.#view(entry.value), etag: etagSource(entry.value) };
    const found = (await this.#options.interfaces.list()).find((one) => one.name === name);
    if (found === undefined) throw errors.notFound('Network not found');
    return { network: this.#unmanaged(found.name, found.type), etag: [found.name, found.type] };
  }

  /** @throws bad-request naming the key, conflict when the name is taken. */
  async create(
    project: string,
    body: NetworkWritable & { name: string; type?: string | undefined },
    options: ChangeOptions = {},
  ): Promise<void> {
    const owner = this.#options.projectFor(project);
    const type = body.type || 'bridge';
    checkNetworkName(body.name);
    const driver = this.#options.drivers.get(type);
    if (driver === undefined)
      throw errors.badRequest(
        isKnownType(type) ? `Networks of type "${type}" are not supported by this server` : 'Unknown driver',
      );
    await this.#options.operations.exclusive([`network/${body.name}`], async () => {
      const id = `${owner}/${body.name}`;
      if (this.#options.networks.get(id) !== undefined) throw errors.badRequest('The network already exists');
      this.#options.guard.checkNewNetwork(owner);
      if ((await this.#options.interfaces.state(body.name)) !== undefined)
        throw errors.badRequest(`Network interface "${body.name}" already exists`);
      const path = this.#options.path(body.name);
      const config = clean(
        await driver.prepare({ name: body.name, config: body.config ?? {}, path }, await this.#usedSubnets()),
      );
      const intent = await this.#options.intents.begin<NetworkIntent>('network-create', {
        name: body.name,
        type,
        config,
        id,
      });
      await this.#make(driver, { name: body.name, config, path }, intent, {
        project: owner,
        name: body.name,
        type,
        description: body.description ?? '',
        config,
        status: 'Created',
      });
      this.#emit('network-created', { project: owner, name: body.name }, options.requestor);
    });
  }

  /**
   * Replaces description and config. @throws not-found, bad-request naming the key; then the old network stays.
   */
  async replace(project: string, name: string, body: NetworkWritable, options: ChangeOptions = {}): Promise<void> {
    await this.#change(
      project,
      name,
      (current) => ({ ...current, description: body.description ?? '', config: clean(body.config ?? {}) }),
      options,
    );
  }

  /** Replaces what is given; keys of `config` are merged, an empty value removes one. */
  async patch(project: string, name: string, body: NetworkWritable, options: ChangeOptions = {}): Promise<void> {
    const merge = (current: NetworkRecord): NetworkRecord => ({
      ...current,
      description: body.description ?? current.description,
      config: clean({ ...current.config, ...body.config }),
    });
    await this.#change(project, name, merge, options);
  }

  /** @throws not-found, bad-request while in use, conflict when the new name is taken. */
  async rename(project: string, name: string, newName: string, options: ChangeOptions = {}): Promise<void> {
    const entry = this.#require(project, name);
    if (newName === '') throw errors.badRequest('New network name not provided');
    checkNetworkName(newName);
    const owner = entry.value.project;
    await this.#options.operations.exclusive([`network/${name}`, `network/${newName}`].sort(), async () => {
      if (this.#options.networks.get(`${owner}/${newName}`) !== undefined)
        throw errors.conflict(`Network "${newName}" already exists`);
      if (this.#options.usage.users(name).length > 0) throw errors.badRequest('Network is currently in use');
      if ((await this.#options.interfaces.state(newName)) !== undefined)
        throw errors.badRequest(`Network interface "${newName}" already exists`);
      const driver = this.#driver(entry.value);
      const [from, to] = [this.#spec(entry.value), this.#spec({ ...entry.value, name: newName })];
      const intent = await this.#options.intents.begin<NetworkIntent>('network-rename', {
        ...to,
        type: entry.value.type,
        id: `${owner}/${newName}`,
      });
      try {
        await driver.rename(from, to, []);
      } catch (error) {
        await driver.stop(to);
        // Nothing of the new name is left, whether the old one comes up again or not.
        await this.#options.intents.end(intent);
        await driver.start(from, this.#options.usage.reservations(name));
        throw error;
      }
      const { networks, intents } = this.#options;
      await intents.end(intent, [
        networks.remove(`${owner}/${name}`),
        networks.put(`${owner}/${newName}`, { ...entry.value, name: newName }),
      ]);
      this.#emit('network-renamed', { project: owner, name: newName }, options.requestor, { old_name: name });
    });
  }

  /** @throws not-found, bad-request while in use. */
  async delete(project: string, name: string, options: ChangeOptions = {}): Promise<void> {
    const entry = this.#require(project, name);
    await this.#options.operations.exclusive([`network/${name}`], async () => {
      if (this.#options.usage.users(name).length > 0) throw errors.badRequest('The network is currently in use');
      options.precondition?.(etagSource(entry.value));
      const id = `${entry.value.project}/${name}`;
      const intent = await this.#options.intents.begin<NetworkIntent>('network-delete', {
        name,
        type: entry.value.type,
        config: entry.value.config,
        id,
      });
      await this.#driver(entry.value).stop(this.#spec(entry.value));
      await this.#options.intents.end(intent, [this.#options.networks.remove(id)]);
      this.#emit('network-deleted', { project: entry.value.project, name: name }, options.requestor);
    });
  }

  /** @throws not-found when the host has no such interface. */
  async state(project: string, name: string): Promise<HostInterface> {
    this.#options.projectFor(project);
    const state = await this.#options.interfaces.state(name);
    if (state === undefined) throw errors.notFound(`Network interface "${name}" not found`);
    return state;
  }

  /** @throws not-found */
  async leases(project: string, name: string): Promise<readonly Lease[]> {
    const entry = this.#require(project, name);
    const leases = await this.#driver(entry.value).leases(
      this.#spec(entry.value),
      this.#options.usage.reservations(name),
    );
    return leases.filter((lease) => lease.type === 'gateway' || project === 'default' || lease.hostname !== '');
  }

  /** A managed network's record, for those who plug into it. */
  managed(project: string, name: string): NetworkRecord | undefined {
    return this.#entry(project, name)?.value;
  }

  /** DHCP learns the nics that use the network now. No effect on interfaces the host manages. */
  async refreshReservations(name: string): Promise<void> {
    await this.#reserving.run(name, async () => {
      const entry = this.#options.networks.list().find((one) => one.value.name === name);
      if (entry !== undefined)
        await this.#driver(entry.value).reserve(this.#spec(entry.value), this.#options.usage.reservations(name));
    });
  }

  async #startOne(entry: Entry<NetworkRecord>): Promise<void> {
    const { value } = entry;
    let status: NetworkRecord['status'] = 'Created';
    try {
      await this.#driver(value).start(this.#spec(value), this.#options.usage.reservations(value.name));
    } catch (error) {
      status = 'Errored';
      this.#options.log.error('Network cannot be brought up', { network: value.name, error: String(error) });
    }
    await this.#options.networks.update(`${value.project}/${value.name}`, (current) =>
      current.status === status ? current : { ...current, status },
    );
  }

  async #make(driver: NetworkDriver, spec: NetworkSpec, intent: Intent, record: NetworkRecord): Promise<void> {
    try {
      await driver.start(spec, []);
    } catch (error) {
      await driver.stop(spec);
      await this.#options.intents.end(intent);
      throw error;
    }
    await this.#options.intents.end(intent, [this.#options.networks.put(`${record.project}/${record.name}`, record)]);
  }

  async #change(
    project: string,
    name: string,
    change: (current: NetworkRecord) => NetworkRecord,
    options: ChangeOptions,
  ): Promise<void> {
    const id = `${this.#require(project, name).value.project}/${name}`;
    await this.#options.operations.exclusive([`network/${name}`], async () => {
      const current = this.#options.networks.get(id)?.value;
      if (current === undefined) throw errors.notFound('Failed loading network: Network not found');
      options.precondition?.(etagSource(current));
      const wanted = change(current);
      const driver = this.#driver(current);
      const prepared = await this.#prepareChange(driver, current, wanted);
      const reservations = this.#options.usage.reservations(name);
      try {
        await driver.start(this.#spec(prepared), reservations);
      } catch (error) {
        await driver.start(this.#spec(current), reservations);
        throw error;
      }
      await this.#options.networks.update(id, () => prepared);
      this.#emit('network-updated', { project: current.project, name: name }, options.requestor);
    });
  }

  /** On a change an absent address stays absent; only `auto` is chosen anew. */
  async #prepareChange(driver: NetworkDriver, current: NetworkRecord, wanted: NetworkRecord): Promise<NetworkRecord> {
    const absent = ['ipv4.address', 'ipv6.address'].filter((key) => (wanted.config[key] ?? '') === '');
    const held = Object.fromEntries(absent.map((key) => [key, 'none']));
    const spec = { ...this.#spec(current), config: { ...wanted.config, ...held } };
    const config = await driver.prepare(spec, await this.#usedSubnets(current.name));
    return {
      ...wanted,
      status: 'Created',
      config: Object.fromEntries(Object.entries(config).filter(([key]) => !absent.includes(key))),
    };
  }

  async #usedSubnets(except?: string): Promise<string[]> {
    const host = await this.#options.interfaces.subnets();
    const others = this.#options.networks.list().filter((entry) => entry.value.name !== except);
    return [
      ...host,
      ...others.flatMap(({ value }) => [value.config['ipv4.address'] ?? '', value.config['ipv6.address'] ?? '']),
    ];
  }

  async #undoCreate(data: NetworkIntent): Promise<void> {
    if (this.#options.networks.get(data.id) !== undefined) return;
    await this.#stop(data);
  }

  async #finishDelete(data: NetworkIntent): Promise<void> {
    await this.#stop(data);
    await this.#options.networks.delete(data.id);
  }

  async #stop({ name, type, config }: NetworkIntent): Promise<void> {
    await this.#options.drivers.get(type)?.stop({ name, config, path: this.#options.path(name) });
  }

  #driver(record: NetworkRecord): NetworkDriver {
    const driver = this.#options.drivers.get(record.type);
    if (driver === undefined)
      throw errors.unavailable(`Networks of type "${record.type}" are not supported by this server`);
    return driver;
  }

  #spec(record: NetworkRecord): NetworkSpec {
    return { name: record.name, config: record.config, path: this.#options.path(record.name) };
  }

  #managed(project: string): readonly Entry<NetworkRecord>[] {
    return this.#options.networks.list(`${this.#options.projectFor(project)}/`);
  }

  #entry(project: string, name: string): Entry<NetworkRecord> | undefined {
    return this.#options.networks.get(`${this.#options.projectFor(project)}/${name}`);
  }

  #require(project: string, name: string): Entry<NetworkRecord> {
    const entry = this.#entry(project, name);
    if (entry === undefined) throw errors.notFound('Failed loading network: Network not found');
    return entry;
  }

  #view(record: NetworkRecord): NetworkView {
    return managedView(record, this.#options.usage.users(record.name));
  }

  #unmanaged(name: string, type: string): NetworkView {
    return unmanagedView(name, type, this.#options.usage.users(name));
  }

  #emit(
    action: string,
    network: { readonly project: string; readonly name: string },
    requestor?: Requestor,
    context?: Readonly<Record<string, unknown>>,
  ): void {
    const source = projectUrl(`/1.0/networks/${encodeURIComponent(network.name)}`, network.project);
    this.#options.events.lifecycle(network.project, {
      action,
      source,
      ...(context && { context }),
      ...(requestor && { requestor }),
    });
  }
}
