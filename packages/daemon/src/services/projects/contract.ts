import type { Project, ProjectPut, ProjectsPost, ProjectState } from '@keelson/api';
import type { RecordList } from '../../core/record-list.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { Caller } from '../certificates/caller.ts';
import type { StartedOperation } from '../operations/contract.ts';
import type { ChangeOptions } from '../profiles/contract.ts';

/** Kinds of objects that belong to projects. Instances always belong to the project itself. */
export type ProjectKind = 'instances' | 'images' | 'profiles' | 'volumes' | 'networks';

/** Where the objects of a project live. */
export interface ProjectScope {
  exists(project: string): boolean;
  /**
   * The project that holds `kind` for `project`: itself, or `default` where it has no own ones.
   * @throws not-found (LXD's text) for an unknown project.
   */
  projectFor(project: string, kind: ProjectKind): string;
}

/** Projects as the API needs them. Every method throws not-found for an unknown name. */
export interface Projects extends ProjectScope {
  /** Only those the caller may use. */
  list(caller: Caller): RecordList;
  get(name: string): { readonly project: Project; readonly etag: readonly unknown[] };
  /** Returns the URL. @throws conflict when the name is taken, bad-request for a bad name or key. */
  create(body: ProjectsPost, options?: ChangeOptions): Promise<string>;
  /** Replaces config and description. @throws bad-request for a feature change while something uses the project. */
  put(name: string, body: ProjectPut, options?: ChangeOptions): Promise<void>;
  /** Sets the given config keys and description; leaves the others. */
  patch(name: string, body: ProjectPut, options?: ChangeOptions): Promise<void>;
  /** In the background; fails when the name is taken or bad, or unless the project is empty. @throws unauthorized for `default`. */
  rename(name: string, newName: string, options?: ChangeOptions): StartedOperation;
  /** @throws unauthorized for `default`, bad-request unless the project is empty. */
  delete(name: string, options?: ChangeOptions): Promise<void>;
  /** Use of each limited resource and its limit. */
  state(name: string): ProjectState;
}

/** What other services ask before they change something in a project with limits or restrictions. */
export interface ProjectGuard {
  /** The instance as it will be, new or changed, without its profiles applied. @throws unauthorized, bad-request with LXD's text. */
  checkInstance(instance: InstanceRecord): void;
  /** The profile as it will be; looks at every instance that uses it. @throws as `checkInstance`. */
  checkProfile(profile: ProfileRecord): void;
  /** A folder of the host, links resolved, that a disk would show. @throws unauthorized where the project forbids it. */
  checkDiskSource(project: string, path: string): void;
  /** @throws unauthorized where the project forbids snapshots. */
  checkSnapshot(project: string): void;
  /** @throws unauthorized where the project forbids backups. */
  checkBackup(project: string): void;
  /** A network more in the project. @throws bad-request when it has no room. */
  checkNewNetwork(project: string): void;
  /**
   * A custom volume as it will be, new or changed; `size` in bytes.
   * @throws bad-request when the project has no room, or limits its disk and the volume has no size.
   */
  checkVolume(
    project: string,
    volume: { readonly pool: string; readonly name: string; readonly size: number | undefined },
  ): void;
}
