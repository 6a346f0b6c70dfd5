import { names, type Profile, type ProfilePut, type ProfilesPost } from '@keelson/api';
import { checkValue } from '../../core/check-value.ts';
import { errors, isKeelsonError, type KeelsonError } from '../../core/errors.ts';
import { JsonCache, type RecordList } from '../../core/record-list.ts';
import { setDevices, setValues } from '../../core/set-values.ts';
import type { Collection, Entry, Ledger } from '../../state/collection.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import type { Check, Write } from '../../state/store.ts';
import type { Events, Lifecycle } from '../events/contract.ts';
import { DEFAULT_PROJECT, effectiveProject, projectUrl } from '../projects/scope.ts';
import type { ChangeOptions, ProfileGuard, Profiles } from './contract.ts';
import { ProfileUsage } from './profile-usage.ts';

const DEFAULT_PROFILE = 'default';
const ATTEMPTS = 5;

export interface ProfileServiceOptions {
  readonly ledger: Ledger;
  readonly profiles: Collection<ProfileRecord>;
  readonly instances: Collection<InstanceRecord>;
  readonly projects: Collection<ProjectRecord>;
  readonly events: Events;
  readonly guard: ProfileGuard;
}

/** Config and devices that instances share. */
export class ProfileService implements Profiles {
  readonly #options: ProfileServiceOptions;
  readonly #records: Collection<ProfileRecord>;
  readonly #usage: ProfileUsage;
  readonly #texts = new JsonCache<Profile>();

  constructor(options: ProfileServiceOptions) {
    this.#options = options;
    this.#records = options.profiles;
    this.#usage = new ProfileUsage(options.instances, options.projects);
    this.#records.subscribe(({ id, after }) => {
      if (after === undefined) this.#texts.delete(id);
    });
  }

  /** Makes the profile `default` of a project that has none yet; called at daemon start. */
  async ensureDefault(project: string = DEFAULT_PROJECT): Promise<void> {
    const id = idOf(project, DEFAULT_PROFILE);
    if (this.#records.get(id) !== undefined) return;
    const description =
      project === DEFAULT_PROJECT ? 'Default Keelson profile' : `Default Keelson profile for project ${project}`;
    await this.#records.create(id, { project, name: DEFAULT_PROFILE, description, config: {}, devices: {} });
  }

  list(project: string): RecordList {
    const home = this.#home(project);
    const rendered = (): readonly { value: Profile; text: string }[] =>
      this.#records.list(`${home}/`).map((entry) => this.#render(entry));
    return {
      version: `${project}:${this.#records.revision}.${this.#usage.version}`,
      urls: () => this.#records.list(`${home}/`).map(({ value }) => profileUrl(project, value.name)),
      json: () => rendered().map(({ text }) => text),
      values: () => rendered().map(({ value }) => value),
    };
  }

  get(project: string, name: string): { profile: Profile; etag: readonly unknown[] } {
    const entry = this.#records.get(idOf(this.#home(project), name));
    if (entry === undefined) throw notFound();
    return { profile: this.#render(entry).value, etag: etagSource(entry.value) };
  }

  async create(project: string, body: ProfilesPost, options: ChangeOptions = {}): Promise<string> {
    checkValue(names.profileName, body.name);
    const { name, description = '', config = {}, devices = {} } = body;
    const record = cleaned({ project: this.#home(project), name, description, config, devices });
    this.#options.guard.check(record);
    await orConflict(this.#records.create(idOf(record.project, name), record), name);
    return this.#announce('profile-created', project, name, requestorOf(options));
  }

  async put(project: string, name: string, body: ProfilePut, options: ChangeOptions = {}): Promise<void> {
    const { description = '', config = {}, devices = {} } = body;
    await this.#change(project, name, options, (current) => ({ ...current, description, config, devices }));
  }

  async patch(project: string, name: string, body: ProfilePut, options: ChangeOptions = {}): Promise<void> {
    await this.#change(project, name, options, (current) => ({
      ...current,
      description: body.description ?? current.description,
      config: { ...current.config, ...body.config },
      devices: { ...current.devices, ...body.devices },
    }));
  }

  async rename(project: string, name: string, newName: string, options: ChangeOptions = {}): Promise<string> {
    if (name === DEFAULT_PROFILE) throw errors.unauthorized('The "default" profile cannot be renamed');
    checkValue(names.profileName, newName);
    for (let attempt = 1; ; attempt++) {
      const { checks, writes } = this.#planRename(this.#home(project), name, newName);
      try {
        await this.#options.ledger.transact(checks, writes);
        break;
      } catch (error) {
        if (!isKeelsonError(error, 'conflict') || attempt === ATTEMPTS) throw error;
      }
    }
    return this.#announce('profile-renamed', project, newName, {
      ...requestorOf(options),
      context: { old_name: name },
    });
  }

  async delete(project: string, name: string, options: ChangeOptions = {}): Promise<void> {
    if (name === DEFAULT_PROFILE) throw errors.unauthorized('The "default" profile cannot be deleted');
    const home = this.#home(project);
    const entry = this.#records.get(idOf(home, name));
    if (entry === undefined) throw notFound();
    if (this.#usage.usedBy(home, name).length > 0) throw errors.badRequest('Profile is currently in use');
    options.precondition?.(etagSource(entry.value));
    if (!(await this.#records.delete(idOf(home, name)))) throw notFound();
    this.#announce('profile-deleted', project, name, requestorOf(options));
  }

  async #change(
    project: string,
    name: string,
    options: ChangeOptions,
    change: (current: ProfileRecord) => ProfileRecord,
  ): Promise<void> {
    const id = idOf(this.#home(project), name);
    if (this.#records.get(id) === undefined) throw notFound();
    let before: ProfileRecord | undefined;
    const { value: after } = await this.#records.update(id, (current) => {
      options.precondition?.(etagSource(current));
      const wanted = cleaned(change(current));
      this.#options.guard.check(wanted);
      before = current;
      return wanted;
    });
    this.#announce('profile-updated', project, name, requestorOf(options));
    if (before !== undefined) await this.#options.guard.apply(before, after);
  }

  /** Instances refer to profiles by name, so the rename changes them in the same transaction. */
  #planRename(home: string, name: string, newName: string): { checks: Check[]; writes: Write[] } {
    const { instances, projects } = this.#options;
    const entry = this.#records.get(idOf(home, name));
    if (entry === undefined) throw notFound();
    if (this.#records.get(idOf(home, newName)) !== undefined) {
      throw errors.conflict(`Name "${newName}" already in use`);
    }
    const checks = [
      this.#records.unchanged(idOf(home, name), entry),
      this.#records.unchanged(idOf(home, newName), undefined),
    ];
    const writes = [
      this.#records.remove(idOf(home, name)),
      this.#records.put(idOf(home, newName), { ...entry.value, name: newName }),
    ];
    for (const user of instances.list()) {
      const { project, profiles, name: instance } = user.value;
      if (!profiles.includes(name) || effectiveProject(projects, project, 'profiles') !== home) continue;
      const id = idOf(project, instance);
      checks.push(instances.unchanged(id, user));
      writes.push(
        instances.put(id, { ...user.value, profiles: profiles.map((used) => (used === name ? newName : used)) }),
      );
    }
    return { checks, writes };
  }

  #home(project: string): string {
    return effectiveProject(this.#options.projects, project, 'profiles');
  }

  #render(entry: Entry<ProfileRecord>): { readonly value: Profile; readonly text: string } {
    const { project, name, config, description, devices } = entry.value;
    const stamp = `${entry.revision}.${this.#usage.version}`;
    return this.#texts.get(idOf(project, name), stamp, () => ({
      config: { ...config },
      description,
      devices: structuredClone(devices) as Profile['devices'],
      name,
      used_by: [...this.#usage.usedBy(project, name)],
    }));
  }

  #announce(action: string, project: string, name: string, details: Pick<Lifecycle, 'requestor' | 'context'>): string {
    const source = profileUrl(project, name);
    this.#options.events.lifecycle(project, { action, source, ...details });
    return source;
  }
}

/** The writable part, whose equality is the ETag's. */
function etagSource(record: ProfileRecord): readonly unknown[] {
  return [record.config, record.description, record.devices];
}

/** What is kept of a request: an empty value means "not set". */
function cleaned(record: ProfileRecord): ProfileRecord {
  return { ...record, config: setValues(record.config), devices: setDevices(record.devices) };
}

function requestorOf({ requestor }: ChangeOptions): Pick<Lifecycle, 'requestor'> {
  return requestor === undefined ? {} : { requestor };
}

function idOf(project: string, name: string): string {
  return `${project}/${name}`;
}

function profileUrl(project: string, name: string): string {
  return projectUrl(`/1.0/profiles/${encodeURIComponent(name)}`, project);
}

function notFound(): KeelsonError {
  return errors.notFound('Profile not found');
}

async function orConflict(write: Promise<unknown>, name: string): Promise<void> {
  try {
    await write;
  } catch (error) {
    if (isKeelsonError(error, 'conflict')) throw errors.conflict(`Profile "${name}" already exists`, error);
    throw error;
  }
}
