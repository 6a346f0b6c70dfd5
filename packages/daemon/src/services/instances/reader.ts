import type { Instance, InstanceFull, InstanceState } from '@keelson/api';
import { JsonCache, type RecordList } from '../../core/record-list.ts';
import { instanceKey } from '../../core/paths.ts';
import type { Entry } from '../../state/collection.ts';
import type { InstanceRecord, InstanceType } from '../../state/records/instance.ts';
import { type InstanceContext, idOf } from './context.ts';
import { isRootDisk } from './plan/expand.ts';
import { renderBackup, renderInstance, renderSnapshot, renderState } from './render.ts';
import { StateSampler } from './sampler.ts';
import { projectUrl } from '../projects/scope.ts';

export interface ListScope {
  /** Undefined: of all projects that `may` allows. */
  readonly project: string | undefined;
  readonly may: (project: string) => boolean;
  /** Names the set of projects `may` allows, for caches. */
  readonly mayKey: string;
  readonly type: InstanceType | undefined;
  /** Noun of the URLs shown, `instances` unless an older path was used. */
  readonly noun: string;
}

/** Instances as the API shows them, from memory. */
export class InstanceReader {
  readonly #context: InstanceContext;
  readonly #sampler: StateSampler;
  readonly #plain = new JsonCache<Instance>();
  readonly #full = new JsonCache<InstanceFull>();

  constructor(context: InstanceContext) {
    this.#context = context;
    this.#sampler = new StateSampler(context);
    context.deps.collections.instances.subscribe(({ id, after }) => {
      if (after !== undefined) return;
      this.#plain.delete(id);
      this.#full.delete(id);
    });
  }

  /** @throws not-found */
  get(
    project: string,
    name: string,
    type?: InstanceType,
  ): { readonly instance: Instance; readonly text: string; readonly etag: readonly unknown[] } {
    const entry = this.#context.entry(project, name, type);
    const { value, text } = this.#render(entry);
    return { instance: value, text, etag: etagSource(entry.value) };
  }

  async getFull(project: string, name: string, type?: InstanceType): Promise<InstanceFull> {
    const entry = this.#context.entry(project, name, type);
    await this.#sampler.take(entry.value);
    return this.#renderFull(entry, `once.${this.#context.deps.now()}`).value;
  }

  async state(project: string, name: string, type?: InstanceType): Promise<InstanceState> {
    const record = this.#context.require(project, name, type);
    const sample = await this.#sampler.take(record);
    return this.#renderState(this.#context.entry(project, name), sample);
  }

  /** Plain records. */
  list(scope: ListScope): RecordList {
    const { instances, profiles } = this.#context.deps.collections;
    const version = `${instances.revision}.${profiles.revision}.${this.#context.statusVersion}`;
    return this.#listOf(scope, version, (entry) => this.#render(entry));
  }

  /** Records with state, snapshots and backups. */
  async listFull(scope: ListScope): Promise<RecordList> {
    const { instances, profiles, snapshots, backups } = this.#context.deps.collections;
    await this.#sampler.refresh(() => instances.list().map(({ value }) => value));
    const version = `${instances.revision}.${profiles.revision}.${snapshots.revision}.${backups.revision}.${this.#context.statusVersion}.${this.#sampler.version}`;
    return this.#listOf(scope, `full.${version}`, (entry) => this.#renderFull(entry, version));
  }

  #listOf<T extends object>(
    scope: ListScope,
    version: string,
    render: (entry: Entry<InstanceRecord>) => { readonly value: T; readonly text: string },
  ): RecordList {
    const entries = (): readonly Entry<InstanceRecord>[] => this.#entries(scope);
    return {
      version: `${scope.project ?? `*${scope.mayKey}`}/${scope.type ?? ''}/${scope.noun}/${version}`,
      urls: () =>
        entries().map(({ value }) => projectUrl(`/1.0/${scope.noun}/${encodeURIComponent(value.name)}`, value.project)),
      json: () => entries().map((entry) => render(entry).text),
      values: () => entries().map((entry) => render(entry).value),
    };
  }

  #entries({ project, may, type }: ListScope): readonly Entry<InstanceRecord>[] {
    const { instances } = this.#context.deps.collections;
    const found =
      project === undefined
        ? instances.list().filter(({ value }) => may(value.project))
        : instances.list(`${project}/`);
    return type === undefined ? found : found.filter(({ value }) => value.type === type);
  }

  #render(entry: Entry<InstanceRecord>): { readonly value: Instance; readonly text: string } {
    const { value: record } = entry;
    const status = this.#context.status(record);
    const stamp = `${entry.revision}.${this.#context.deps.collections.profiles.revision}.${status}`;
    return this.#plain.get(idOf(record.project, record.name), stamp, () =>
      renderInstance(record, this.#context.effective(entry), status),
    );
  }

  #renderFull(entry: Entry<InstanceRecord>, stamp: string): { readonly value: InstanceFull; readonly text: string } {
    const { value: record } = entry;
    const id = idOf(record.project, record.name);
    return this.#full.get(id, stamp, () => {
      const snapshots = this.#context.snapshotsOf(record.project, record.name);
      const backups = this.#context.deps.collections.backups.list(`${id}/`);
      return {
        ...this.#render(entry).value,
        backups: backups.length === 0 ? null : backups.map(({ value }) => renderBackup(value)),
        state: this.#renderState(entry, this.#sampler.peek(record)),
        snapshots:
          snapshots.length === 0
            ? null
            : snapshots.map(({ value }) => renderSnapshot(value, this.#context.expand(value))),
      };
    });
  }

  #renderState(entry: Entry<InstanceRecord>, sample: Parameters<typeof renderState>[1]): InstanceState {
    const { value: record } = entry;
    const guest = this.#context.deps.driver.state(instanceKey(record.project, record.name));
    const root = Object.entries(this.#context.effective(entry).devices).find(([, device]) => isRootDisk(device));
    return renderState(guest, sample, root?.[0]);
  }
}

/** The writable part, whose equality is the ETag's. */
export function etagSource(record: InstanceRecord): readonly unknown[] {
  return [record.architecture, record.config, record.devices, record.ephemeral, record.profiles];
}
