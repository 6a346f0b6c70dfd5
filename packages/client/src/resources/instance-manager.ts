import type { Instance as InstanceRecord, InstancesPost, Operation as OperationRecord } from '@keelson/api';
import { type AllOptions, Manager } from '../manager.ts';
import type { ModelContext, ProgressOptions, Sparse, WaitOptions } from '../model.ts';
import type { RequestBody } from '../transport/types.ts';
import { serverHeaders } from './common.ts';
import { Instance, INSTANCE_FIELDS } from './instance.ts';

/** `client.instances`, and with a type `client.containers` and `client.virtualMachines`. */
export class InstanceManager extends Manager<InstanceRecord, Instance, 'name'> {
  readonly #type: 'container' | 'virtual-machine' | undefined;

  /** @internal */
  constructor(context: ModelContext, type?: 'container' | 'virtual-machine') {
    super(context, {
      path: context.connection.path('instances'),
      fields: INSTANCE_FIELDS,
      key: 'name',
      make: (name, record, populated, scoped = context) => new Instance(scoped, name, record, populated),
    });
    this.#type = type;
  }

  /** Sparse objects: only `name` is there, other attributes are promises. `GET /1.0/instances` */
  override async all(options?: AllOptions): Promise<Sparse<Instance, 'name'>[]>;
  /** Full objects in one request. `GET /1.0/instances?recursion=1` */
  override async all(options: AllOptions & { readonly recursion: 1 }): Promise<Instance[]>;
  override async all(
    options: AllOptions & { readonly recursion?: 1 } = {},
  ): Promise<(Sparse<Instance, 'name'> | Instance)[]> {
    const own = this.#type === undefined ? undefined : `type eq ${this.#type}`;
    const filter = [own, options.filter].filter((part) => part !== undefined).join(' and ');
    const all = { ...options, ...(filter === '' ? {} : { filter }) };
    return all.recursion === 1 ? super.all({ ...all, recursion: 1 }) : super.all(all);
  }

  /**
   * Creates an instance and waits until it is there. `start: true` starts it too. Without `name` the server picks one.
   * `POST /1.0/instances` @throws APIException
   */
  async create(definition: InstancesPost & { readonly start?: boolean }, options: WaitOptions = {}): Promise<Instance> {
    const { start = false, ...body } = definition;
    const { connection, operations } = this.context;
    const json = { ...(this.#type === undefined ? {} : { type: this.#type }), ...body };
    const answer = await connection.request<OperationRecord>('POST', this.definition.path, {
      json,
      signal: options.signal,
    });
    const name = body.name ?? createdName(answer.metadata);
    if (options.wait === false) return this.definition.make(name, {}, false);
    await operations.wait(answer.operation, { signal: options.signal, onProgress: options.onProgress });
    const instance = this.definition.make(name, {}, false);
    if (start) await instance.start({ signal: options.signal });
    else await instance.sync({ signal: options.signal });
    return instance;
  }

  /** Makes an instance from a backup tarball; `name` overrides the one in it. `POST /1.0/instances` @throws APIException */
  async import(
    backup: RequestBody,
    options: ProgressOptions & { readonly name?: string; readonly pool?: string } = {},
  ): Promise<Instance> {
    const headers = {
      'Content-Type': 'application/octet-stream',
      ...serverHeaders({ name: options.name, pool: options.pool }),
    };
    const { connection, operations } = this.context;
    const answer = await connection.request<OperationRecord>('POST', this.definition.path, {
      raw: backup,
      headers,
      signal: options.signal,
    });
    const { signal, onProgress } = options;
    const ended = await operations.wait(answer.operation, { signal, onProgress });
    return this.get(options.name ?? createdName(ended), { signal: options.signal });
  }
}

/** @internal Name of the instance that an operation makes, from its resources. */
export function createdName(operation: OperationRecord): string {
  const [url] = operation.resources?.['instances'] ?? operation.resources?.['containers'] ?? [];
  return decodeURIComponent((url ?? '').split('?')[0]?.split('/').at(-1) ?? '');
}
