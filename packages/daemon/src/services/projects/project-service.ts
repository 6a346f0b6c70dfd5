import { isTrue, names, type Project, type ProjectPut, type ProjectsPost, type ProjectState } from '@keelson/api';
import { checkValue } from '../../core/check-value.ts';
import { errors, isKeelsonError, type KeelsonError } from '../../core/errors.ts';
import { JsonCache, type RecordList } from '../../core/record-list.ts';
import type { Collection, Entry, Ledger } from '../../state/collection.ts';
import type { CertificateRecord } from '../../state/records/certificate.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import type { Check, Write } from '../../state/store.ts';
import { type Caller, mayUseProject } from '../certificates/caller.ts';
import type { Events } from '../events/contract.ts';
import type { Operations, StartedOperation } from '../operations/contract.ts';
import type { ChangeOptions } from '../profiles/contract.ts';
import type { ProjectKind, Projects } from './contract.ts';
import { checkedConfig, checkFeatureChange, defaultProjectConfig, newConfig } from './project-config.ts';
import type { RecordProjectGuard } from './project-guard.ts';
import { checkLimitChange, projectState } from './project-limits.ts';
import { type ProjectMembers, ProjectUsage } from './project-usage.ts';
import { DEFAULT_PROJECT, effectiveProject } from './scope.ts';

const attempts = 5;

export interface ProjectServiceOptions {
  readonly ledger: Ledger;
  readonly projects: Collection<ProjectRecord>;
  readonly certificates: Collection<CertificateRecord>;
  readonly members: ProjectMembers;
  readonly guard: RecordProjectGuard;
  readonly operations: Operations;
  readonly events: Events;
}

/** What a change of records checks and writes; planned anew when it lost a race. */
interface Plan {
  readonly checks: readonly Check[];
  readonly writes: readonly Write[];
}

/** Separate worlds of instances, and of the images, profiles, volumes and networks they choose to have. */
export class ProjectService implements Projects {
  readonly #options: ProjectServiceOptions;
  readonly #records: Collection<ProjectRecord>;
  readonly #usage: ProjectUsage;
  readonly #texts = new JsonCache<Project>();

  constructor(options: ProjectServiceOptions) {
    this.#options = options;
    this.#records = options.projects;
    this.#usage = new ProjectUsage(options.members);
    this.#records.subscribe(({ id, after }) => {
      if (after === undefined) this.#texts.delete(id);
    });
  }

  /** Makes the project `default` at the first start. */
  async ensureDefault(): Promise<void> {
    if (this.#records.get(DEFAULT_PROJECT) !== undefined) return;
    const record = { name: DEFAULT_PROJECT, description: 'Default Keelson project', config: defaultProjectConfig };
    await this.#records.create(DEFAULT_PROJECT, record);
  }

  exists(project: string): boolean {
    return project === DEFAULT_PROJECT || this.#records.get(project) !== undefined;
  }

  projectFor(project: string, kind: ProjectKind): string {
    if (!this.exists(project)) throw errors.notFound(`Failed loading project "${project}": Project not found`);
    if (kind === 'instances') return project;
    return effectiveProject(this.#records, project, kind === 'volumes' ? 'storage.volumes' : kind);
  }

  list(caller: Caller): RecordList {
    const entries = () => this.#records.list().filter(({ value }) => mayUseProject(caller, value.name));
    const seen = caller.kind === 'restricted' ? JSON.stringify(caller.projects) : 'all';
    return {
      version: `${this.#records.revision}.${this.#usage.version}:${seen}`,
      urls: () => entries().map(({ value }) => urlOf(value.name)),
      json: () => entries().map((entry) => this.#render(entry).text),
      values: () => entries().map((entry) => this.#render(entry).value),
    };
  }

  get(name: string): { project: Project; etag: readonly unknown[] } {
    const entry = this.#find(name);
    return { project: this.#render(entry).value, etag: etagSource(entry.value) };
  }

  async create(body: ProjectsPost, options: ChangeOptions = {}): Promise<string> {
    const { name, description = '' } = body;
    checkValue(names.projectName, name);
    const record: ProjectRecord = { name, description, config: newConfig(body.config ?? {}) };
    await this.#commit(() => {
      if (this.#records.get(name) !== undefined) throw errors.conflict(`Project "${name}" already exists`);
      const profile = this.#profileChange(name, {}, record.config);
      return {
        checks: [this.#records.unchanged(name, undefined), ...profile.checks],
        writes: [this.#records.put(name, record), ...profile.writes],
      };
    });
    this.#announce('project-created', name, options);
    return urlOf(name);
  }

  async put(name: string, body: ProjectPut, options: ChangeOptions = {}): Promise<void> {
    const { description = '', config = {} } = body;
    await this.#change(name, options, () => ({ description, config }));
  }

  async patch(name: string, body: ProjectPut, options: ChangeOptions = {}): Promise<void> {
    await this.#change(name, options, (current) => ({
      description: body.description ?? current.description,
      config: { ...current.config, ...body.config },
    }));
  }

  rename(name: string, newName: string, options: ChangeOptions = {}): StartedOperation {
    if (name === DEFAULT_PROJECT) throw errors.unauthorized("The 'default' project cannot be renamed");
    return this.#options.operations.start({
      class: 'task',
      project: DEFAULT_PROJECT,
      description: 'Renaming project',
      resources: {},
      run: async () => {
        await this.#commit(() => this.#planRename(name, newName));
        this.#announce('project-renamed', newName, options, { old_name: name });
      },
    });
  }

  async delete(name: string, options: ChangeOptions = {}): Promise<void> {
    if (name === DEFAULT_PROJECT) throw errors.unauthorized("The 'default' project cannot be deleted");
    await this.#commit(() => {
      const entry = this.#find(name);
      options.precondition?.(etagSource(entry.value));
      if (!this.#usage.isEmpty(name)) throw errors.badRequest('Only empty projects can be removed');
      const profile = this.#profileChange(name, entry.value.config, {});
      const certificates = this.#certificateChange(name, []);
      return {
        checks: [this.#records.unchanged(name, entry), ...profile.checks, ...certificates.checks],
        writes: [this.#records.remove(name), ...profile.writes, ...certificates.writes],
      };
    });
    this.#announce('project-deleted', name, options);
  }

  state(name: string): ProjectState {
    return projectState(this.#find(name).value.config, this.#options.guard.content(name));
  }

  async #change(
    name: string,
    options: ChangeOptions,
    change: (current: ProjectRecord) => { description: string; config: Readonly<Record<string, string>> },
  ): Promise<void> {
    await this.#commit(() => {
      const entry = this.#find(name);
      options.precondition?.(etagSource(entry.value));
      const { description, config: wanted } = change(entry.value);
      const config = checkedConfig(wanted);
      this.#checkConfigChange(entry.value, config);
      const profile = this.#profileChange(name, entry.value.config, config);
      return {
        checks: [this.#records.unchanged(name, entry), ...profile.checks],
        writes: [this.#records.put(name, { name, description, config }), ...profile.writes],
      };
    });
    this.#announce('project-updated', name, options);
  }

  #checkConfigChange({ name, config: before }: ProjectRecord, after: Readonly<Record<string, string>>): void {
    const { guard } = this.#options;
    checkFeatureChange(name, { before, after, empty: this.#usage.isEmpty(name) });
    checkLimitChange(name, { before, after }, guard.content(name));
    guard.checkAll(name, after);
  }

  #planRename(name: string, newName: string): Plan {
    const entry = this.#records.get(name);
    if (entry === undefined) throw errors.notFound(`Failed loading project "${name}": Project not found`);
    if (this.#records.get(newName) !== undefined) throw errors.conflict(`A project named "${newName}" already exists`);
    if (!this.#usage.isEmpty(name)) throw errors.badRequest('Only empty projects can be renamed');
    checkValue(names.projectName, newName);
    const { profiles } = this.#options.members;
    const profile = profiles.get(`${name}/default`);
    const certificates = this.#certificateChange(name, [newName]);
    const checks = [
      this.#records.unchanged(name, entry),
      this.#records.unchanged(newName, undefined),
      profiles.unchanged(`${name}/default`, profile),
      ...certificates.checks,
    ];
    const writes = [
      this.#records.remove(name),
      this.#records.put(newName, { ...entry.value, name: newName }),
      ...certificates.writes,
    ];
    if (profile !== undefined) {
      writes.push(
        profiles.remove(`${name}/default`),
        profiles.put(`${newName}/default`, { ...profile.value, project: newName }),
      );
    }
    return { checks, writes };
  }

  /** A project with own profiles has a default one; one without has none. */
  #profileChange(project: string, before: ProjectRecord['config'], after: ProjectRecord['config']): Plan {
    const [had, has] = [before, after].map((config) => isTrue(config['features.profiles']));
    if (had === has) return { checks: [], writes: [] };
    const { profiles } = this.#options.members;
    const id = `${project}/default`;
    const checks = [profiles.unchanged(id, profiles.get(id))];
    if (!has) return { checks, writes: [profiles.remove(id)] };
    const description = `Default Keelson profile for project ${project}`;
    return { checks, writes: [profiles.put(id, { project, name: 'default', description, config: {}, devices: {} })] };
  }

  /** Certificates restricted to the project follow it, so that nobody inherits rights with a name. */
  #certificateChange(project: string, replacement: readonly string[]): Plan {
    const { certificates } = this.#options;
    const affected = certificates.list().filter(({ value }) => value.projects.includes(project));
    const idOf = (entry: Entry<CertificateRecord>) => entry.key.slice(certificates.prefix.length);
    return {
      checks: affected.map((entry) => certificates.unchanged(idOf(entry), entry)),
      writes: affected.map((entry) => {
        const projects = entry.value.projects.flatMap((name) => (name === project ? replacement : [name]));
        return certificates.put(idOf(entry), { ...entry.value, projects });
      }),
    };
  }

  async #commit(plan: () => Plan): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const { checks, writes } = plan();
      try {
        await this.#options.ledger.transact(checks, writes);
        return;
      } catch (error) {
        if (!isKeelsonError(error, 'conflict') || attempt === attempts) throw error;
      }
    }
  }

  #find(name: string): Entry<ProjectRecord> {
    const entry = this.#records.get(name);
    if (entry === undefined) throw notFound();
    return entry;
  }

  #render(entry: Entry<ProjectRecord>): { readonly value: Project; readonly text: string } {
    const { name, description, config } = entry.value;
    return this.#texts.get(name, `${entry.revision}.${this.#usage.version}`, () => ({
      config: { ...config },
      description,
      name,
      used_by: [...this.#usage.usedBy(name)],
    }));
  }

  #announce(action: string, name: string, { requestor }: ChangeOptions, context?: Record<string, unknown>): void {
    this.#options.events.lifecycle(name, {
      action,
      source: urlOf(name),
      ...(requestor === undefined ? {} : { requestor }),
      ...(context === undefined ? {} : { context }),
    });
  }
}

/** The writable part, whose equality is the ETag's. */
function etagSource(record: ProjectRecord): readonly unknown[] {
  return [record.description, record.config];
}

function urlOf(name: string): string {
  return `/1.0/projects/${encodeURIComponent(name)}`;
}

function notFound(): KeelsonError {
  return errors.notFound('Project not found');
}
