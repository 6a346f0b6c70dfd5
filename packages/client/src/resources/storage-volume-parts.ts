import type {
  StoragePoolVolumeBackup,
  StoragePoolVolumeBackupsPost,
  StorageVolumeSnapshot,
  StorageVolumeSnapshotsPost,
} from '@keelson/api';
import type { CallOptions, ProgressOptions } from '../model.ts';
import { Backups } from './backups.ts';
import { Part } from './part.ts';

/** `volume.snapshots`: `…/volumes/<type>/<name>/snapshots` */
export class StorageVolumeSnapshots extends Part {
  /** `GET …/snapshots?recursion=1` */
  async all(options: CallOptions = {}): Promise<StorageVolumeSnapshot[]> {
    const request = { query: { recursion: 1 }, signal: options.signal };
    return this.context.connection.get<StorageVolumeSnapshot[]>(this.path('snapshots'), request);
  }

  /** `GET …/snapshots/<snapshot>` @throws NotFound */
  async get(name: string, options: CallOptions = {}): Promise<StorageVolumeSnapshot> {
    const path = this.path('snapshots', name);
    return this.context.connection.get<StorageVolumeSnapshot>(path, { signal: options.signal });
  }

  /** Takes a snapshot and waits until it is there. `expires_at` is RFC 3339. `POST …/snapshots` @throws APIException */
  async create(definition: StorageVolumeSnapshotsPost = {}, options: ProgressOptions = {}): Promise<void> {
    await this.change('POST', this.path('snapshots'), definition, options);
  }

  /** `POST …/snapshots/<snapshot>` @throws APIException when the name is taken */
  async rename(name: string, newName: string, options: CallOptions = {}): Promise<void> {
    await this.change('POST', this.path('snapshots', name), { name: newName }, options);
  }

  /** `PATCH …/snapshots/<snapshot>` @throws NotFound */
  async update(
    name: string,
    change: { readonly description?: string; readonly expires_at?: string },
    options: CallOptions = {},
  ): Promise<void> {
    await this.change('PATCH', this.path('snapshots', name), change, options);
  }

  /** `DELETE …/snapshots/<snapshot>` @throws NotFound */
  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.change('DELETE', this.path('snapshots', name), undefined, options);
  }
}

/** `volume.backups`: `…/volumes/<type>/<name>/backups`; the server needs the extension `custom_volume_backup`. */
export class StorageVolumeBackups extends Backups<StoragePoolVolumeBackup, StoragePoolVolumeBackupsPost> {
  protected readonly extension = 'custom_volume_backup';
}
