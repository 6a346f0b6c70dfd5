import type { Profile, ProfilePut, ProfilesPost } from '@keelson/api';
import type { Precondition } from '../../core/precondition.ts';
import type { RecordList } from '../../core/record-list.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { Requestor } from '../events/contract.ts';

/** Who changes something, and what they demand of the state they change. */
export interface ChangeOptions {
  readonly requestor?: Requestor;
  readonly precondition?: Precondition;
}

/** Profiles as the API needs them. Every method throws not-found (`Profile not found`) for an unknown name. */
export interface Profiles {
  list(project: string): RecordList;
  /** The record, and its ETag source. */
  get(project: string, name: string): { readonly profile: Profile; readonly etag: readonly unknown[] };
  /** Returns the URL. @throws conflict when the name is taken. */
  create(project: string, body: ProfilesPost, options?: ChangeOptions): Promise<string>;
  /** Replaces config, devices and description. */
  put(project: string, name: string, body: ProfilePut, options?: ChangeOptions): Promise<void>;
  /** Sets the given config keys, devices and description; leaves the others. */
  patch(project: string, name: string, body: ProfilePut, options?: ChangeOptions): Promise<void>;
  /** Instances follow. Returns the new URL. @throws unauthorized for `default`, conflict when the name is taken. */
  rename(project: string, name: string, newName: string, options?: ChangeOptions): Promise<string>;
  /** @throws unauthorized for `default`, bad-request while an instance uses it. */
  delete(project: string, name: string, options?: ChangeOptions): Promise<void>;
}

/** What profiles ask the instances room. */
export interface ProfileGuard {
  /** Checks config keys and devices of a profile. @throws bad-request with LXD's text. */
  check(profile: ProfileRecord): void;
  /** Brings running instances that use the profile in line with its new content, after the commit. */
  apply(before: ProfileRecord, after: ProfileRecord): Promise<void>;
}
