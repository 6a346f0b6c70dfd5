import { errors, type KeelsonError } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import type { GuestStatus, InstanceRef } from '../../drivers/instance/contract.ts';
import type { Entry } from '../../state/collection.ts';
import type { InstanceRecord, InstanceSnapshotRecord, InstanceType } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { Requestor } from '../events/contract.ts';
import { effectiveProject, projectUrl } from '../projects/scope.ts';
import type { InstanceDeps } from './deps.ts';
import type { Effective } from './plan/changes.ts';
import { expandConfig, expandDevices } from './plan/expand.ts';
import { idMapBase, parseIdMap, planIdMap } from './plan/idmap.ts';
import { isTrue } from '@keelson/api';
import type { IdRange } from '../../drivers/instance/contract.ts';
import type { RootVolume } from './ports.ts';
import { RootMounts } from './root-mounts.ts';
import { InstanceRules } from './rules.ts';

export const NEVER_USED = '1970-01-01T00:00:00Z';
export const NO_EXPIRY = '0001-01-01T00:00:00Z';

/** Who asked for a change. */
export interface By {
  readonly requestor?: Requestor | undefined;
  /** False for a project the caller must not see; absent: all may be used. */
  readonly mayUseProject?: ((project: string) => boolean) | undefined;
  /** False for a caller that must not make the server connect to others; absent: it may. */
  readonly mayFetch?: boolean | undefined;
}

export function idOf(project: string, name: string): string {
  return `${project}/${name}`;
}

/** What all parts of the instances room share: finding, expanding, naming and announcing instances. */
export class InstanceContext {
  readonly deps: InstanceDeps;
  readonly rules: InstanceRules;
  readonly roots: RootMounts;
  readonly #effective = new Map<string, { readonly stamp: string; readonly value: Effective }>();
  /** Grows whenever the status of a guest may have changed. */
  #statusVersion = 0;

  constructor(deps: InstanceDeps) {
    this.deps = deps;
    this.roots = new RootMounts(deps.storage, ({ project, instance }) => this.isRunning({ project, name: instance }));
    this.rules = new InstanceRules({
      validateNic: (project, device) => deps.networks.validateNic(project, device),
      poolExists: (pool) => deps.storage.poolExists(pool),
      volumes: deps.volumes,
    });
    deps.collections.instances.subscribe(({ id, after }) => {
      if (after === undefined) this.#effective.delete(id);
    });
  }

  find(project: string, name: string): InstanceRecord | undefined {
    return this.deps.collections.instances.get(idOf(project, name))?.value;
  }

  /** @throws not-found; `type` limits the search to one kind of instance. */
  require(project: string, name: string, type?: InstanceType): InstanceRecord {
    return this.entry(project, name, type).value;
  }

  entry(project: string, name: string, type?: InstanceType): Entry<InstanceRecord> {
    if (name.includes('/')) throw errors.badRequest('Invalid instance name');
    const entry = this.deps.collections.instances.get(idOf(project, name));
    if (entry === undefined || (type !== undefined && entry.value.type !== type)) throw instanceNotFound();
    return entry;
  }

  snapshot(project: string, name: string, snapshot: string): Entry<InstanceSnapshotRecord> {
    const entry = this.deps.collections.snapshots.get(`${idOf(project, name)}/${snapshot}`);
    if (entry !== undefined) return entry;
    throw errors.notFound(
      `Failed to fetch snapshot "${snapshot}" of instance "${name}" in project "${project}": InstanceSnapshot not found`,
    );
  }

  /** Oldest first. */
  snapshotsOf(project: string, name: string): readonly Entry<InstanceSnapshotRecord>[] {
    const found = this.deps.collections.snapshots.list(`${idOf(project, name)}/`);
    return found.length < 2
      ? found
      : [...found].sort((a, b) => compare(a.value.createdAt, b.value.createdAt) || compare(a.key, b.key));
  }

  profileProject(project: string): string {
    return effectiveProject(this.deps.collections.projects, project, 'profiles');
  }

  profilesOf(record: Pick<InstanceRecord, 'project' | 'profiles'>): readonly ProfileRecord[] {
    const home = this.profileProject(record.project);
    return record.profiles.flatMap((name) => this.deps.collections.profiles.get(idOf(home, name))?.value ?? []);
  }

  expand(record: Pick<InstanceRecord, 'project' | 'profiles' | 'config' | 'devices'>): Effective {
    const profiles = this.profilesOf(record);
    return { config: expandConfig(record.config, profiles), devices: expandDevices(record.devices, profiles) };
  }

  /** As `expand`, with one profile in another version than the stored one. */
  expandWith(record: InstanceRecord, profile: ProfileRecord): Effective {
    const profiles = this.profilesOf(record).map((known) =>
      known.name === profile.name && known.project === profile.project ? profile : known,
    );
    return { config: expandConfig(record.config, profiles), devices: expandDevices(record.devices, profiles) };
  }

  /** As `expand`, remembered while neither the record nor a profile changed. */
  effective(entry: Entry<InstanceRecord>): Effective {
    const stamp = `${entry.revision}.${this.deps.collections.profiles.revision}`;
    const id = idOf(entry.value.project, entry.value.name);
    const known = this.#effective.get(id);
    if (known?.stamp === stamp) return known.value;
    const value = this.expand(entry.value);
    this.#effective.set(id, { stamp, value });
    return value;
  }

  ref(record: { readonly project: string; readonly name: string }): InstanceRef {
    return { key: instanceKey(record.project, record.name), project: record.project, name: record.name };
  }

  lock(record: { readonly project: string; readonly name: string }): string {
    return `instance/${record.project}/${record.name}`;
  }

  status(record: { readonly project: string; readonly name: string }): GuestStatus {
    return this.deps.driver.state(instanceKey(record.project, record.name)).status;
  }

  isRunning(record: { readonly project: string; readonly name: string }): boolean {
    const status = this.status(record);
    return status === 'Running' || status === 'Frozen';
  }

  get statusVersion(): number {
    return this.#statusVersion;
  }

  statusChanged(): void {
    this.#statusVersion++;
  }

  /** The map the instance runs with, or will at its next start. */
  idRange(record: InstanceRecord, config = this.expand(record).config): IdRange | undefined {
    const current = parseIdMap(record.config['volatile.idmap.next']);
    const { hostIds, collections } = this.deps;
    if (!isTrue(config['security.idmap.isolated'])) return planIdMap({ config, host: hostIds, taken: [] });
    const taken = collections.instances.list().flatMap(({ value }) => {
      if (value === record || (value.project === record.project && value.name === record.name)) return [];
      const base = value.config['volatile.idmap.base'] ?? '0';
      return base === '0' ? [] : (parseIdMap(value.config['volatile.idmap.next']) ?? []);
    });
    return planIdMap({ config, host: hostIds, taken, current });
  }

  idMapKeys(config: Readonly<Record<string, string>>, range: IdRange | undefined): string {
    return idMapBase(config, range);
  }

  rootVolume(record: InstanceRecord, effective: Effective = this.expand(record)): RootVolume {
    return {
      pool: record.pool,
      project: record.project,
      instance: record.name,
      type: record.type,
      idRange: this.idRange(record, effective.config),
      nesting: isTrue(effective.config['security.nesting']),
    };
  }

  url(project: string, name: string, below = ''): string {
    return projectUrl(`/1.0/instances/${encodeURIComponent(name)}${below}`, project);
  }

  /** `resources` of an operation: the instances, and the same as containers for older clients. */
  resources(project: string, ...names: readonly string[]): Record<string, readonly string[]> {
    const of = (noun: string): string[] => names.map((name) => projectUrl(`/1.0/${noun}/${name}`, project));
    return { containers: of('containers'), instances: of('instances') };
  }

  lifecycle(
    action: string,
    record: { readonly project: string; readonly name: string },
    by: By = {},
    extra: LifecycleExtra = {},
  ): void {
    this.deps.events.lifecycle(record.project, {
      action,
      source: this.url(record.project, record.name, extra.below),
      ...(extra.context === undefined ? {} : { context: extra.context }),
      ...(by.requestor === undefined ? {} : { requestor: by.requestor }),
    });
  }

  /** ISO 8601 UTC. */
  timestamp(): string {
    return new Date(this.deps.now()).toISOString();
  }
}

interface LifecycleExtra {
  /** Path below the instance's URL. */
  readonly below?: string;
  readonly context?: Readonly<Record<string, unknown>>;
}

export function instanceNotFound(): KeelsonError {
  return errors.notFound('Instance not found');
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
