import { type CallOptions, type Model, type ModelContext, type Sparse, sparse } from './model.ts';
import { exists, inProject, nameOf, projectOf } from './resources/common.ts';

export interface AllOptions extends CallOptions {
  /** Objects of every project; only where the server lists them so. */
  readonly allProjects?: boolean;
  /** LXD's filter grammar, for example `status eq Running`. */
  readonly filter?: string;
}

/** What a manager must know of its noun. */
export interface ManagerDefinition<R extends object, M extends Model<R>, Key extends keyof R & keyof M & string> {
  /** Path of the collection, for example `/1.0/profiles`; a getter where it can change. */
  readonly path: string;
  /** Fields of the record. */
  readonly fields: readonly (keyof R & string)[];
  /** The field that a URL of the collection ends with: there without a fetch. */
  readonly key: Key;
  /** Extension that every operation needs. */
  readonly extension?: string;
  /** `context` is that of the object's project where a list spans several; else the manager's. */
  make(name: string, record: Partial<R>, populated: boolean, context?: ModelContext): M;
}

/** Lists, gets and looks for the objects of one collection. */
export class Manager<R extends object, M extends Model<R>, Key extends keyof R & keyof M & string> {
  protected readonly context: ModelContext;
  protected readonly definition: ManagerDefinition<R, M, Key>;

  /** @internal */
  constructor(context: ModelContext, definition: ManagerDefinition<R, M, Key>) {
    this.context = context;
    this.definition = definition;
  }

  /** Sparse objects: only the identifying attribute is there, others are promises. `GET` of the collection. */
  async all(options?: AllOptions): Promise<Sparse<M, Key>[]>;
  /** Full objects in one request: `GET` of the collection with `recursion=1`. */
  async all(options: AllOptions & { readonly recursion: 1 }): Promise<M[]>;
  async all(options: AllOptions & { readonly recursion?: 1 } = {}): Promise<(Sparse<M, Key> | M)[]> {
    await this.assertAvailable();
    const { path, fields, key } = this.definition;
    const query = {
      filter: options.filter,
      'all-projects': options.allProjects ? 'true' : undefined,
      recursion: options.recursion,
    };
    if (options.recursion === 1) {
      const records = await this.context.connection.get<R[]>(path, { query, signal: options.signal });
      return records.map((record) => {
        const context = options.allProjects ? this.#contextOf((record as { project?: string }).project) : undefined;
        return this.definition.make(String(record[key]), record, true, context);
      });
    }
    const urls = await this.context.connection.get<string[]>(path, { query, signal: options.signal });
    return urls.map((url) => {
      const context = options.allProjects ? this.#contextOf(projectOf(url) ?? 'default') : undefined;
      const model = this.definition.make(nameOf(url), {}, false, context);
      return sparse<R, M, Key>(model, fields, [key]);
    });
  }

  /** One object: `GET` of `<collection>/<name>`. @throws NotFound */
  async get(name: string, options: CallOptions = {}): Promise<M> {
    await this.assertAvailable();
    return this.definition.make(name, {}, false).sync(options);
  }

  /** Whether it is there: `GET` of `<collection>/<name>`. Prefer `get` and `NotFound` where the object itself is needed. */
  async exists(name: string, options: CallOptions = {}): Promise<boolean> {
    await this.assertAvailable();
    return exists(this.definition.make(name, {}, false).sync(options));
  }

  /** @internal The server as this manager sees it. */
  get scope(): ModelContext {
    return this.context;
  }

  /** @throws APIExtensionNotAvailable */
  protected async assertAvailable(): Promise<void> {
    if (this.definition.extension !== undefined) await this.context.assertExtension(this.definition.extension);
  }

  #contextOf(project: string | undefined): ModelContext {
    return project === undefined ? this.context : inProject(this.context, project);
  }
}
