import type { ResourcesStoragePool, StoragePool, StoragePoolPut, StoragePoolsPost } from '@keelson/api';
import type { RecordList } from '../../core/record-list.ts';
import type { ChangeOptions } from '../profiles/contract.ts';

export type { ChangeOptions } from '../profiles/contract.ts';

/** Storage pools as the API needs them. Every method throws not-found (`Storage pool not found`) for an unknown name. */
export interface StoragePools {
  list(): RecordList;
  /** The record, and its ETag source. */
  get(name: string): { readonly pool: StoragePool; readonly etag: readonly unknown[] };
  /** Returns the URL. @throws conflict when the name is taken, bad-request naming the key or the source. */
  create(body: StoragePoolsPost, options?: ChangeOptions): Promise<string>;
  /** Replaces description and config. @throws bad-request naming a key that cannot change. */
  put(name: string, body: StoragePoolPut, options?: ChangeOptions): Promise<void>;
  /** Sets the given config keys and description; leaves the others. */
  patch(name: string, body: StoragePoolPut, options?: ChangeOptions): Promise<void>;
  /** @throws bad-request while something other than images uses it. */
  delete(name: string, options?: ChangeOptions): Promise<void>;
  /** Bytes and inodes. @throws unavailable with the reason. */
  resources(name: string): Promise<ResourcesStoragePool>;
}
