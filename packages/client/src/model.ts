import type { Connection, RequestOptions } from './connection.ts';
import { StaleObject } from './errors.ts';
import type { OperationWaiter } from './operation-waiter.ts';

/** What managers and models work with. */
export interface ModelContext {
  readonly connection: Connection;
  readonly operations: OperationWaiter;
  /** @throws APIExtensionNotAvailable */
  assertExtension(name: string): Promise<void>;
  hasExtension(name: string): Promise<boolean>;
}

export interface WaitOptions {
  /** Wait until the background operation, if there is one, ended well (default false). */
  readonly wait?: boolean;
  readonly signal?: AbortSignal;
}

/** Attributes of a sparse object are promises; what is in `Known` and methods are as in the full object. */
export type Sparse<M, Known extends keyof M = never> = {
  readonly [K in keyof M]: K extends Known
    ? M[K]
    : M[K] extends (...args: never[]) => unknown
      ? M[K]
      : K extends ManagerKey
        ? M[K]
        : Promise<M[K]>;
};

/** Sub-managers of models: objects with methods, there without a fetch. */
type ManagerKey = 'resources' | 'volumes' | 'snapshots' | 'backups' | 'files' | 'logs' | 'templates' | 'members';

export interface ModelDefinition<R extends object> {
  /** Path of the object, for example `/1.0/profiles/web`. */
  readonly path: string;
  /** What to call it in messages: `Profile "web"`. */
  readonly label: string;
  /** Keys that `save` sends, as the server's PUT replaces them. */
  readonly writable: readonly (keyof R & string)[];
}

/**
 * An object of the API: its record, and what can be done with it. Attributes are the record's own, under the
 * API's names; writable ones may be set and are sent by `save()`.
 */
export abstract class Model<R extends object> {
  protected readonly context: ModelContext;
  #definition: ModelDefinition<R>;
  #record: Partial<R>;
  #changed = new Set<string>();
  #populated: boolean;
  #fetching: Promise<void> | undefined;
  #etag: string | undefined;
  #stale = false;

  protected constructor(context: ModelContext, definition: ModelDefinition<R>, record: Partial<R>, populated: boolean) {
    this.context = context;
    this.#definition = definition;
    this.#record = record;
    this.#populated = populated;
  }

  /** The record as last read, with changes made here. Attributes that were never read are missing from a sparse object. */
  get record(): Readonly<Partial<R>> {
    return this.#record;
  }

  /** False for an object of `all()` that was not fetched yet. */
  get populated(): boolean {
    return this.#populated;
  }

  /** URL path of the object. */
  get path(): string {
    return this.#definition.path;
  }

  /** Reads the record again; changes that were not saved are lost. Returns the full object. @throws NotFound */
  async sync(options: { readonly signal?: AbortSignal } = {}): Promise<this> {
    this.assertAlive();
    const { metadata, headers } = await this.connection.request<R>('GET', this.path, options);
    this.#record = metadata;
    this.#etag = headers['etag'];
    this.#changed.clear();
    this.#populated = true;
    return this;
  }

  /**
   * Sends changed attributes with PUT, in full as the server replaces them, under the ETag last read. With nothing
   * changed nothing is sent. @throws PreconditionFailed when somebody changed the object meanwhile
   */
  async save(options: WaitOptions = {}): Promise<void> {
    this.assertAlive();
    if (this.#changed.size === 0) return;
    if (!this.#populated) await this.populate();
    const body = Object.fromEntries(this.#definition.writable.map((key) => [key, this.#record[key]]));
    await this.#write('PUT', body, { ...options, etag: this.#etag });
    await this.sync(options);
  }

  /** PUT of `body` (which replaces everything writable), then reads the record again. */
  async put(body: Partial<R>, options: WaitOptions = {}): Promise<void> {
    await this.#write('PUT', body, options);
    await this.sync(options);
  }

  /** PATCH of `body` (which changes only what it names), then reads the record again. */
  async patch(body: Partial<R>, options: WaitOptions = {}): Promise<void> {
    await this.#write('PATCH', body, options);
    await this.sync(options);
  }

  /** As `put`, without reading the record again. */
  async rawPut(body: Partial<R>, options: WaitOptions = {}): Promise<void> {
    await this.#write('PUT', body, options);
  }

  /** As `patch`, without reading the record again. */
  async rawPatch(body: Partial<R>, options: WaitOptions = {}): Promise<void> {
    await this.#write('PATCH', body, options);
  }

  /** Deletes the object; afterwards every use of it throws StaleObject. `wait` (default true) waits for a background operation. */
  async delete(options: WaitOptions = {}): Promise<void> {
    this.assertAlive();
    await this.run('DELETE', this.path, {}, { wait: true, ...options });
    this.#stale = true;
  }

  /** Plain JSON: the record. */
  toJSON(): Readonly<Partial<R>> {
    return this.#record;
  }

  protected get connection(): Connection {
    return this.context.connection;
  }

  /** @throws StaleObject after `delete` */
  protected assertAlive(): void {
    if (this.#stale) throw new StaleObject(this.#definition.label);
  }

  /** The object moved: later requests go to the new path. */
  protected moved(definition: ModelDefinition<R>, record: Partial<R>): void {
    this.#definition = definition;
    this.#record = { ...this.#record, ...record };
  }

  /** @internal Value of an attribute as last read or set. */
  attribute<K extends keyof R & string>(key: K): R[K] {
    this.assertAlive();
    return this.#record[key] as R[K];
  }

  /** @internal */
  setAttribute<K extends keyof R & string>(key: K, value: R[K]): void {
    this.assertAlive();
    this.#record = { ...this.#record, [key]: value };
    this.#changed.add(key);
  }

  /** @internal One fetch however many ask; keeps attributes that were set meanwhile. */
  async populate(): Promise<void> {
    this.assertAlive();
    if (this.#populated) return;
    this.#fetching ??= this.#fetch();
    await this.#fetching;
  }

  /** Sends a request; waits for its background operation when asked, and throws if that failed. */
  protected async run(
    method: string,
    path: string,
    options: RequestOptions,
    wait: WaitOptions = {},
  ): Promise<{ metadata: unknown; operation: string }> {
    const answer = await this.connection.request<unknown>(method, path, { ...options, signal: wait.signal });
    if (answer.operation !== '' && wait.wait) {
      const operation = await this.context.operations.wait(answer.operation, { signal: wait.signal });
      return { metadata: operation.metadata, operation: answer.operation };
    }
    return { metadata: answer.metadata, operation: answer.operation };
  }

  async #fetch(): Promise<void> {
    const changes = Object.fromEntries([...this.#changed].map((key) => [key, this.#record[key as keyof R]]));
    const { metadata, headers } = await this.connection.request<R>('GET', this.path);
    this.#record = { ...metadata, ...changes };
    this.#etag = headers['etag'];
    this.#populated = true;
  }

  async #write(
    method: 'PUT' | 'PATCH',
    body: object,
    options: WaitOptions & { etag?: string | undefined },
  ): Promise<void> {
    this.assertAlive();
    const headers = options.etag === undefined ? {} : { 'If-Match': options.etag };
    await this.run(method, this.path, { json: body, headers }, options);
  }
}

/** Gives a model class one accessor per field of its record; `writable` ones can be set. Called once per class. */
export function defineAttributes<R extends object>(
  model: { readonly prototype: Model<R> },
  fields: readonly (keyof R & string)[],
  writable: readonly (keyof R & string)[],
): void {
  for (const field of fields) {
    Object.defineProperty(model.prototype, field, {
      configurable: true,
      enumerable: true,
      get(this: Model<R>) {
        return this.attribute(field);
      },
      ...(writable.includes(field)
        ? {
            set(this: Model<R>, value: R[typeof field]) {
              this.setAttribute(field, value);
            },
          }
        : {}),
    });
  }
}

/**
 * A sparse view of a model: `known` attributes are there, every other one is a promise; the first that is asked
 * for fetches the record once for all of them. Methods and sub-managers are the model's own.
 */
export function sparse<R extends object, M extends Model<R>, Known extends keyof M & string>(
  model: M,
  fields: readonly (keyof R & string)[],
  known: readonly Known[],
): Sparse<M, Known> {
  const promised = new Set<string>(fields.filter((field) => !(known as readonly string[]).includes(field)));
  const view: object = new Proxy(model, {
    get(target, key) {
      if (typeof key === 'string' && promised.has(key))
        return target.populate().then(() => Reflect.get(target, key) as unknown);
      const value: unknown = Reflect.get(target, key);
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value;
    },
  });
  return view as Sparse<M, Known>;
}
