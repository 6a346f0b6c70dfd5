import { Type, type Static } from 'typebox';
import type { ProjectConfig } from '../config-keys.ts';
import { Nullable, typedMap } from './common.ts';

/** Writable part of a project. */
export const ProjectPut = Type.Object(
  {
    config: Type.Optional(typedMap<ProjectConfig>()),
    description: Type.Optional(Type.String()),
  },
  { $id: 'ProjectPut' },
);
export type ProjectPut = Static<typeof ProjectPut>;

/** Creates a project. `POST /1.0/projects`. */
export const ProjectsPost = Type.Object(
  {
    ...ProjectPut.properties,
    name: Type.String(),
  },
  { $id: 'ProjectsPost' },
);
export type ProjectsPost = Static<typeof ProjectsPost>;

/** Renames a project. `POST /1.0/projects/:name`. */
export const ProjectPost = Type.Object(
  {
    name: Type.String(),
  },
  { $id: 'ProjectPost' },
);
export type ProjectPost = Static<typeof ProjectPost>;

/** A project. `used_by` holds URL paths. `GET /1.0/projects/:name`. */
export const Project = Type.Object(
  {
    config: typedMap<ProjectConfig>(),
    description: Type.String(),
    name: Type.String(),
    used_by: Nullable(Type.Array(Type.String())),
  },
  { $id: 'Project' },
);
export type Project = Static<typeof Project>;

/** Use and limit of one resource of a project; `Limit` -1 means none. */
export const ProjectStateResource = Type.Object(
  {
    Limit: Type.Integer(),
    Usage: Type.Integer(),
  },
  { $id: 'ProjectStateResource' },
);
export type ProjectStateResource = Static<typeof ProjectStateResource>;

/** Use of a project's limits. `GET /1.0/projects/:name/state`. */
export const ProjectState = Type.Object(
  {
    resources: Type.Record(Type.String(), ProjectStateResource),
  },
  { $id: 'ProjectState' },
);
export type ProjectState = Static<typeof ProjectState>;
