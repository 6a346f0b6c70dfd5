import { names, parseSize } from '@keelson/api';
import type {
  StorageVolume,
  StorageVolumePost,
  StorageVolumePut,
  StorageVolumesPost,
  StorageVolumeState,
} from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { RecordList } from '../../core/record-list.ts';
import type { StorageVolumeRecord } from '../../state/records/storage.ts';
import type { StartedOperation } from '../operations/contract.ts';
import type { ChangeOptions, Reach, StorageVolumes, VolumeAddress, VolumeUpload } from './contract.ts';
import type { ImageVolumeService } from './image-volumes.ts';
import { goneSnapshots } from './volume-config.ts';
import { cleanConfig, type VolumeContext } from './volume-context.ts';
import { sizeOf, type VolumeCreator } from './volume-creator.ts';
import type { VolumeImporter } from './volume-importer.ts';
import type { VolumeMigration } from './volume-migration.ts';
import type { VolumeMover } from './volume-mover.ts';
import { checkName, snapshotId, snapshotUrl, type VolumeId, volumeId, volumeUrl } from './volume-names.ts';
import { VolumeRenderer } from './volume-render.ts';

export interface VolumeServiceParts {
  readonly creator: VolumeCreator;
  readonly mover: VolumeMover;
  readonly migration: VolumeMigration;
  readonly importer: VolumeImporter;
  readonly images: Pick<ImageVolumeService, 'removeOne'>;
}

/** Keys that change what ids a running guest sees. */
const SHIFT_KEYS = ['security.shifted', 'security.unmapped'];

export class VolumeService implements StorageVolumes {
  readonly #context: VolumeContext;
  readonly #parts: VolumeServiceParts;
  readonly #renderer: VolumeRenderer;

  constructor(context: VolumeContext, parts: VolumeServiceParts) {
    this.#context = context;
    this.#parts = parts;
    this.#renderer = new VolumeRenderer(context);
    context.deps.intents.handle<VolumeId>('storage-volume-delete', async ({ data }) => this.#finishDelete(data));
  }

  list(pool: string, projects: readonly string[] | undefined, type?: string): RecordList {
    return this.#renderer.list(pool, projects, type);
  }

  get(address: VolumeAddress): { volume: StorageVolume; etag: readonly unknown[] } {
    const record = this.#context.find(address);
    const entry = this.#context.deps.volumes.get(volumeId(record));
    if (entry === undefined) throw errors.notFound('Storage pool volume not found');
    return { volume: this.#renderer.render(entry).value, etag: etagSource(record) };
  }

  async create(
    at: Omit<VolumeAddress, 'name'>,
    body: StorageVolumesPost,
    options: ChangeOptions & Reach = {},
  ): Promise<StartedOperation | undefined> {
    if (at.type !== 'custom') {
      throw errors.badRequest(
        at.type === ''
          ? 'You must provide a storage volume type of the storage volume'
          : `Currently not allowed to create storage volumes of type "${at.type}"`,
      );
    }
    checkName(names.volumeName, body.name);
    const source = body.source?.type ?? '';
    if (source === '') {
      await this.#parts.creator.createEmpty({ ...at, name: body.name }, body, options);
      return undefined;
    }
    if (source === 'copy') return this.#parts.creator.copy({ ...at, name: body.name }, body, options);
    if (source === 'migration') return this.#parts.migration.receive({ ...at, name: body.name }, body, options);
    throw errors.badRequest(`Unknown source type "${source}"`);
  }

  upload(
    at: Omit<VolumeAddress, 'name' | 'type'>,
    upload: VolumeUpload,
    options: ChangeOptions = {},
  ): Promise<StartedOperation> {
    return this.#parts.importer.upload(at, upload, options);
  }

  async put(address: VolumeAddress, body: StorageVolumePut, options: ChangeOptions = {}): Promise<void> {
    if ((body.restore ?? '') !== '') return this.#restore(address, body.restore ?? '', options);
    const { config = {}, description = '' } = body;
    await this.#change(address, options, (current) => ({ ...current, description, config }));
  }

  async patch(address: VolumeAddress, body: StorageVolumePut, options: ChangeOptions = {}): Promise<void> {
    await this.#change(address, options, (current) => ({
      ...current,
      description: body.description ?? current.description,
      config: { ...current.config, ...body.config },
    }));
  }

  async post(
    address: VolumeAddress,
    body: StorageVolumePost,
    options: ChangeOptions & Reach = {},
  ): Promise<string | StartedOperation> {
    if (body.migration !== true) return this.#parts.mover.post(address, body, options);
    checkName(names.volumeName, body.name ?? '');
    return this.#parts.migration.send(address, body, options);
  }

  async delete(address: VolumeAddress, options: ChangeOptions = {}): Promise<void> {
    const id = this.#context.idOf(address);
    if (id.type === 'image') return this.#parts.images.removeOne(id.pool, id.name);
    const gone = await this.#context.exclusive(id, async () => {
      const record = this.#context.require(id);
      if (record.type !== 'custom') {
        throw errors.badRequest(`Storage volumes of type "${record.type}" cannot be deleted with the storage API`);
      }
      options.precondition?.(etagSource(record));
      if (this.#context.deps.usage.ofVolume(id).length > 0)
        throw errors.badRequest('The storage volume is still in use');
      const snapshots = this.#context.snapshotsOf(id);
      const intent = await this.#context.deps.intents.begin<VolumeId>('storage-volume-delete', { ...id });
      await this.#finishDelete(id);
      await this.#context.deps.intents.end(intent);
      return snapshots;
    });
    for (const one of gone)
      this.#context.announce('storage-volume-snapshot-deleted', id.project, snapshotUrl(one), options);
    this.#context.announce('storage-volume-deleted', id.project, volumeUrl(id), options);
  }

  async state(address: VolumeAddress): Promise<StorageVolumeState> {
    const record = this.#context.find(address);
    const { pool, ref } = await this.#context.open(record);
    const used = await pool.volumes.usage(ref);
    if (used === undefined) return { usage: null };
    const size = parseSize(record.config['size'] ?? '');
    return { usage: { used, total: size.ok ? size.value : 0 } };
  }

  async #restore(address: VolumeAddress, snapshot: string, options: ChangeOptions): Promise<void> {
    const id = this.#context.idOf(address);
    await this.#context.exclusive(id, async () => {
      const record = this.#context.findCustom(address, 'The content');
      options.precondition?.(etagSource(record));
      if (this.#context.deps.snapshots.get(snapshotId({ ...id, volume: id.name, name: snapshot })) === undefined) {
        throw errors.notFound('Snapshot not found');
      }
      this.#context.assertIdle(id, 'Cannot restore custom volume used by running instances');
      const { pool, ref } = await this.#context.open(record);
      await pool.snapshots.restore(ref, snapshot, { config: record.config });
      const { ledger, snapshots } = this.#context.deps;
      const gone = await goneSnapshots(pool, ref, record.config, this.#context.snapshotsOf(id));
      if (gone.length > 0)
        await ledger.transact(
          [],
          gone.map((one) => snapshots.remove(snapshotId(one))),
        );
    });
    this.#context.announce('storage-volume-restored', id.project, volumeUrl(id), { ...options, context: { snapshot } });
  }

  async #change(
    address: VolumeAddress,
    options: ChangeOptions,
    change: (current: StorageVolumeRecord) => StorageVolumeRecord,
  ): Promise<void> {
    const id = this.#context.idOf(address);
    await this.#context.exclusive(id, async () => {
      const current = this.#context.require(id);
      options.precondition?.(etagSource(current));
      const changed = change(current);
      // A key that is not known is refused without a value too: whoever unsets it meant another.
      this.#context.checkConfig(current, changed.config);
      if (current.type !== 'custom') checkRoot(current, changed);
      const wanted = { ...changed, config: cleanConfig(changed.config) };
      if (SHIFT_KEYS.some((key) => (wanted.config[key] ?? '') !== (current.config[key] ?? ''))) {
        this.#context.assertIdle(id, 'Cannot modify shifting with running instances using the volume');
      }
      if (current.type === 'custom' && (wanted.config['size'] ?? '') !== (current.config['size'] ?? '')) {
        const size = parseSize(wanted.config['size'] ?? '');
        this.#context.deps.guard.checkVolume(id.project, { ...id, size: sizeOf(wanted) });
        const { pool, ref } = await this.#context.open(current);
        await pool.quota?.set(ref, size.ok && size.value > 0 ? size.value : undefined, { config: wanted.config });
      }
      await this.#context.deps.volumes.update(volumeId(id), () => wanted);
    });
    this.#context.announce('storage-volume-updated', id.project, volumeUrl(id), options);
  }

  async #finishDelete(id: VolumeId): Promise<void> {
    const { ledger, volumes, snapshots, backups } = this.#context.deps;
    const record = volumes.get(volumeId(id))?.value;
    if (record === undefined) return;
    const { pool, ref } = await this.#context.open(record);
    await pool.volumes.delete(ref);
    const files = backups.list(`${volumeId(id)}/`);
    for (const { value } of files) await this.#parts.importer.files.remove(value);
    await ledger.transact(
      [],
      [
        volumes.remove(volumeId(id)),
        ...this.#context.snapshotsOf(id).map((snapshot) => snapshots.remove(snapshotId(snapshot))),
        ...files.map(({ value }) => backups.remove(`${volumeId(id)}/${value.name}`)),
      ],
    );
  }
}

/** What only custom volumes have. @throws bad-request with LXD's text. */
function checkRoot(current: StorageVolumeRecord, { config }: StorageVolumeRecord): void {
  if ((config['size'] ?? '') !== (current.config['size'] ?? ''))
    throw errors.badRequest('Volume "size" property is not valid for volume type');
}

/** The writable part, whose equality is the ETag's. */
function etagSource({ name, type, config, description }: StorageVolumeRecord): readonly unknown[] {
  return [name, type, config, description];
}
