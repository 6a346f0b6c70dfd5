import type { StorageVolume } from '@keelson/api';
import { JsonCache, type RecordList } from '../../core/record-list.ts';
import type { Entry } from '../../state/collection.ts';
import type { StorageVolumeRecord, StorageVolumeSnapshotRecord } from '../../state/records/storage.ts';
import { projectUrl } from '../projects/scope.ts';
import type { VolumeContext } from './volume-context.ts';
import { parseVolumeType, type VolumeId, volumeUrl } from './volume-names.ts';

interface Row {
  readonly url: string;
  readonly shown: () => { readonly value: StorageVolume; readonly text: string };
}

/** Volumes as the API shows them; texts are kept until their record or its users change. */
export class VolumeRenderer {
  readonly #context: VolumeContext;
  readonly #texts = new JsonCache<StorageVolume>();

  constructor(context: VolumeContext) {
    this.#context = context;
    const { volumes, snapshots } = context.deps;
    volumes.subscribe(({ id, after }) => after === undefined && this.#texts.delete(id));
    snapshots.subscribe(({ id, after }) => after === undefined && this.#texts.delete(id));
  }

  render(entry: Entry<StorageVolumeRecord>): { readonly value: StorageVolume; readonly text: string } {
    const { usage } = this.#context.deps;
    return this.#texts.get(entry.key, `${entry.revision}.${usage.version}`, () => ({
      ...common(entry.value),
      name: entry.value.name,
      used_by: [...usage.ofVolume(entry.value)],
    }));
  }

  list(pool: string, projects: readonly string[] | undefined, type: string | undefined): RecordList {
    this.#context.deps.live.record(pool);
    const only = type === undefined ? undefined : parseVolumeType(type);
    const { volumes, snapshots, usage } = this.#context.deps;
    const rows = (): Row[] => {
      const wanted = (id: VolumeId) =>
        (only === undefined || id.type === only) &&
        (projects === undefined || projects.some((project) => id.project === this.#context.home(project, id.type)));
      const own = volumes
        .list(`${pool}/`)
        .filter(({ value }) => wanted(value))
        .map((entry) => this.#volumeRow(entry));
      const shots = snapshots
        .list(`${pool}/`)
        .filter(({ value }) => wanted(value))
        .map((entry) => this.#snapshotRow(entry));
      return [...own, ...shots].sort((a, b) => (a.url < b.url ? -1 : 1));
    };
    return {
      version: `${pool}:${projects?.join(',') ?? '*'}:${type ?? ''}:${volumes.revision}.${snapshots.revision}.${usage.version}`,
      urls: () => rows().map(({ url }) => url),
      json: () => rows().map(({ shown }) => shown().text),
      values: () => rows().map(({ shown }) => shown().value),
    };
  }

  #volumeRow(entry: Entry<StorageVolumeRecord>): Row {
    return { url: volumeUrl(entry.value), shown: () => this.render(entry) };
  }

  #snapshotRow(entry: Entry<StorageVolumeSnapshotRecord>): Row {
    const { value } = entry;
    const url = volumeUrl({ ...value, name: value.volume }, `/snapshots/${encodeURIComponent(value.name)}`);
    return {
      url,
      shown: () =>
        this.#texts.get(entry.key, entry.revision, () => ({
          ...common(value),
          name: `${value.volume}/${value.name}`,
          used_by: snapshotUsers(value),
        })),
    };
  }
}

function common(record: StorageVolumeRecord | StorageVolumeSnapshotRecord): Omit<StorageVolume, 'name' | 'used_by'> {
  return {
    config: { ...record.config },
    description: record.description,
    type: record.type,
    location: 'none',
    content_type: record.contentType,
    project: record.project,
    created_at: record.createdAt,
  };
}

function snapshotUsers({ type, project, volume, name }: StorageVolumeSnapshotRecord): string[] {
  if (type !== 'container' && type !== 'virtual-machine') return [];
  return [projectUrl(`/1.0/instances/${encodeURIComponent(volume)}/snapshots/${encodeURIComponent(name)}`, project)];
}
