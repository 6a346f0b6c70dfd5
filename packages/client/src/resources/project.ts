import type { Project as ProjectRecord } from '@keelson/api';
import { Manager } from '../manager.ts';
import { type CallOptions, defineAttributes, Model, type ModelContext, type WaitOptions } from '../model.ts';

const FIELDS = ['name', 'description', 'config', 'used_by'] as const;
const WRITABLE = ['description', 'config'] as const;

/** A project: a name space of instances and, by its `features.*`, of images, profiles, volumes and networks. */
export class Project extends Model<ProjectRecord> {
  /** Unique on the server. */
  declare readonly name: ProjectRecord['name'];
  /** For people. */
  declare description: ProjectRecord['description'];
  /** `features.*`, `limits.*`, `restricted.*`, all text. */
  declare config: ProjectRecord['config'];
  /** URL paths of what is in it. */
  declare readonly used_by: ProjectRecord['used_by'];

  /** @internal */
  constructor(context: ModelContext, name: string, record: Partial<ProjectRecord>, populated: boolean) {
    super(context, definitionOf(context, name), { ...record, name }, populated);
  }

  /** `POST /1.0/projects/<name>` @throws APIException while in use */
  async rename(newName: string, options: WaitOptions = {}): Promise<void> {
    await this.run('POST', this.path, { json: { name: newName } }, { wait: true, ...options });
    this.moved(definitionOf(this.context, newName), { name: newName });
  }
}
defineAttributes<ProjectRecord>(Project, FIELDS, WRITABLE);

function definitionOf(context: ModelContext, name: string): { path: string; label: string; writable: typeof WRITABLE } {
  return { path: context.connection.path('projects', name), label: `Project "${name}"`, writable: WRITABLE };
}

/** `client.projects`. Every operation throws APIExtensionNotAvailable without the extension `projects`. */
export class ProjectManager extends Manager<ProjectRecord, Project, 'name'> {
  /** @internal */
  constructor(context: ModelContext) {
    super(context, {
      path: context.connection.path('projects'),
      fields: FIELDS,
      key: 'name',
      extension: 'projects',
      make: (name, record, populated, scoped = context) => new Project(scoped, name, record, populated),
    });
  }

  /** `POST /1.0/projects` @throws APIException */
  async create(
    name: string,
    definition: { readonly description?: string; readonly config?: Record<string, string> } = {},
    options: CallOptions = {},
  ): Promise<Project> {
    await this.assertAvailable();
    const request = { json: { name, ...definition }, signal: options.signal };
    await this.context.connection.request('POST', this.definition.path, request);
    return this.get(name, options);
  }
}
