import type { Project, ProjectPut, ProjectsPost, ProjectState } from '@keelson/api';
import type { RecordList } from '../../core/record-list.ts';
import type { Caller } from '../certificates/caller.ts';
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
  /** @throws unauthorized for `default`, conflict when the name is taken, bad-request unless the project is empty. */
  rename(name: string, newName: string, options?: ChangeOptions): Promise<void>;
  /** @throws unauthorized for `default`, bad-request unless the project is empty. */
  delete(name: string, options?: ChangeOptions): Promise<void>;
  /** Use of each limited resource and its limit. */
  state(name: string): ProjectState;
}
