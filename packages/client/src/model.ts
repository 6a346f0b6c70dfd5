import type { Answer, Connection, RequestOptions } from './connection.ts';
import { StaleObject } from './errors.ts';
import type { OperationWaiter, WaitForOptions } from './operation-waiter.ts';

/** @internal What managers and models work with. */
export interface ModelContext {
  readonly connection: Connection;
  readonly operations: OperationWaiter;
  /** @throws APIExtensionNotAvailable */
  assertExtension(name: string): Promise<void>;
  hasExtension(name: string): Promise<boolean>;
}

/** What every call takes. */
export interface CallOptions {
  /** Ends the call, which then rejects with the signal's reason. What the server does already goes on. */
  readonly signal?: AbortSignal | undefined;
}

/** What calls take that wait for a background operation. */
export interface ProgressOptions extends CallOptions {
  /** Called with each record of the operation seen on the way: progress stands in its `metadata`, as `<stage>_progress`. */
  readonly onProgress?: WaitForOptions['onProgress'];
}

/** What calls take that may wait for a background operation. */
export interface WaitOptions extends ProgressOptions {
  /** Wait until the background operation, if there is one, ended well (default false). */
  readonly wait?: boolean;
}

/** What every object, sparse or full, has at once. */
export interface ModelState<R extends object> {
  /** The record as last read, with changes made here. Attributes that were never read are missing from a sparse object. */
  readonly record: Readonly<Partial<R>>;
  /** False for an object of `all()` that was not fetched yet. */
  readonly populated: boolean;
  /** URL path of the object. @throws StaleObject after `delete` */
  readonly path: string;
  /** Whether attributes were set, or writable objects changed in place, since the record was read. */
  readonly changed: boolean;
}

/** Attributes of a sparse object are promises; what is in `Known`, methods and managers are as in the full object. */
export type Sparse<M, Known extends keyof M = never> =
  M extends Model<infer R>
    ? ModelState<R> & {
        readonly [K in keyof M as K extends keyof ModelState<R> | 'scope' ? never : K]: K extends Known
          ? M[K]
          : K extends keyof R
            ? M[K] extends (...args: never[]) => unknown
              ? M[K]
              : Promise<M[K]>
            : M[K];
      }
    : never;

/** @internal How a model sees its record. */
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
export abstract class Model<R extends object> implements ModelState<R> {
  protected readonly context: ModelContext;
  #definition: ModelDefinition<R>;
  #record: Partial<R>;
  #changed = new Set<string>();
  /** Writable objects that were handed out, as text before anybody could change them in place. */
  readonly #shown = new Map<string, string>();
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
    for (const key of this.#definition.writable) this.#show(key);
    return this.#record;
  }

  /** False for an object of `all()` that was not fetched yet. */
  get populated(): boolean {
    return this.#populated;
  }

  /** URL path of the object. @throws StaleObject after `delete` */
  get path(): string {
    this.assertAlive();
    return this.#definition.path;
  }

  /** Reads the record again (`GET` of `path`); changes that were not saved are lost. Returns the full object. @throws NotFound */
  async sync(options: CallOptions = {}): Promise<this> {
    const { metadata, headers } = await this.connection.request<R>('GET', this.path, { signal: options.signal });
    this.#record = metadata;
    this.#etag = headers['etag'];
    this.#changed.clear();
    this.#shown.clear();
    this.#populated = true;
    return this;
  }

  /** Whether attributes were set, or writable objects changed in place, since the record was read. */
  get changed(): boolean {
    if (this.#changed.size > 0) return true;
    return [...this.#shown].some(([key, before]) => JSON.stringify(this.#record[key as keyof R]) !== before);
  }

  /**
   * Sends changes, also those made in place (`pool.config['size'] = '20GiB'`), with a `PUT` of everything writable
   * under the ETag last read; then reads the record again. With nothing changed nothing is sent.
   * @throws PreconditionFailed when somebody changed the object meanwhile, APIException when the server refuses
   */
  async save(options: WaitOptions = {}): Promise<void> {
    this.assertAlive();
    if (!this.changed) return;
    if (!this.#populated) await this.populate();
    const entries = this.#definition.writable.map((key) => [key, this.#record[key]]);
    const body = Object.fromEntries(entries.filter(([, value]) => value !== undefined));
    await this.#writeAndSync('PUT', body, { ...options, etag: this.#etag });
  }

  /**
   * `PUT` of `body` to `path` (which replaces everything writable), then reads the record again; unless the server goes on in
   * the background and `wait` is not set. @throws APIException
   */
  async put(body: Partial<R>, options: WaitOptions = {}): Promise<void> {
    await this.#writeAndSync('PUT', body, options);
  }

  /** `PATCH` of `path` with `body` (which changes only what it names), then as `put`. @throws APIException */
  async patch(body: Partial<R>, options: WaitOptions = {}): Promise<void> {
    await this.#writeAndSync('PATCH', body, options);
  }

  /** As `put` (`PUT` of `path`), without reading the record again. @throws APIException */
  async rawPut(body: Partial<R>, options: WaitOptions = {}): Promise<void> {
    await this.#write('PUT', body, options);
  }

  /** As `patch` (`PATCH` of `path`), without reading the record again. @throws APIException */
  async rawPatch(body: Partial<R>, options: WaitOptions = {}): Promise<void> {
    await this.#write('PATCH', body, options);
  }

  /** Deletes the object (`DELETE` of `path`); afterwards every use of it throws StaleObject. `wait` (default true) waits for a background operation. */
  async delete(options: WaitOptions = {}): Promise<void> {
    await this.run('DELETE', this.path, {}, { wait: true, ...options });
    this.gone();
  }

  /** Plain JSON: the record. */
  toJSON(): Readonly<Partial<R>> {
    return this.record;
  }

  /** @internal The server as this object sees it. */
  get scope(): ModelContext {
    return this.context;
  }

  protected get connection(): Connection {
    return this.context.connection;
  }

  /** @throws StaleObject after `delete` */
  protected assertAlive(): void {
    if (this.#stale) throw new StaleObject(this.#definition.label);
  }

  /** The object is not there any more: every later use throws StaleObject. */
  protected gone(): void {
    this.#stale = true;
  }

  /** The object moved: later requests go to the new path. */
  protected moved(definition: ModelDefinition<R>, record: Partial<R>): void {
    this.#definition = definition;
    this.#record = { ...this.#record, ...record };
  }

  /** @internal Value of an attribute as last read or set. */
  attribute<K extends keyof R & string>(key: K): R[K] {
    this.assertAlive();
    this.#show(key);
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
    this.#fetching ??= this.#fetch().finally(() => (this.#fetching = undefined));
    await this.#fetching;
  }

  /** Sends a request and returns its answer; waits for its background operation when asked, and throws if that failed. */
  protected async run(
    method: string,
    path: string,
    options: RequestOptions,
    wait: WaitOptions = {},
  ): Promise<Answer<unknown>> {
    const answer = await this.connection.request<unknown>(method, path, { ...options, signal: wait.signal });
    if (answer.operation !== '' && wait.wait) {
      await this.context.operations.wait(answer.operation, { signal: wait.signal, onProgress: wait.onProgress });
    }
    return answer;
  }

  /** Remembers how a writable object looked before the caller got hold of it. */
  #show(key: string): void {
    const value = this.#record[key as keyof R];
    if (typeof value !== 'object' || value === null || this.#shown.has(key)) return;
    if ((this.#definition.writable as readonly string[]).includes(key)) this.#shown.set(key, JSON.stringify(value));
  }

  async #fetch(): Promise<void> {
    const changes = Object.fromEntries([...this.#changed].map((key) => [key, this.#record[key as keyof R]]));
    const { metadata, headers } = await this.connection.request<R>('GET', this.path);
    this.#record = { ...metadata, ...changes };
    this.#etag = headers['etag'];
    this.#populated = true;
  }

  async #writeAndSync(method: 'PUT' | 'PATCH', body: object, options: WriteOptions): Promise<void> {
    const { operation } = await this.#write(method, body, options);
    if (operation === '' || options.wait) {
      await this.sync(options);
      return;
    }
    // The change is still under way: what was read before neither counts as saved state nor as its version.
    this.#changed.clear();
    this.#shown.clear();
    this.#etag = undefined;
  }

  async #write(method: 'PUT' | 'PATCH', body: object, options: WriteOptions): Promise<Answer<unknown>> {
    const headers = options.etag === undefined ? {} : { 'If-Match': options.etag };
    return this.run(method, this.path, { json: body, headers }, options);
  }
}

interface WriteOptions extends WaitOptions {
  readonly etag?: string | undefined;
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
