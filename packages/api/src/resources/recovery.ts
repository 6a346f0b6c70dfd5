import { Type, type Static } from 'typebox';
import type { StoragePoolConfig } from '../config-keys.ts';
import { typedMap } from './common.ts';

/** A pool to look at: one of the server's by name alone, another with driver and source. */
export const RecoverPoolPost = Type.Object(
  {
    name: Type.String(),
    driver: Type.Optional(Type.String()),
    description: Type.Optional(Type.String()),
    config: Type.Optional(Type.Union([typedMap<StoragePoolConfig>(), Type.Null()])),
  },
  { $id: 'RecoverPoolPost' },
);
export type RecoverPoolPost = Static<typeof RecoverPoolPost>;

/** Pools to search for what the server does not know. `POST /1.0/internal/recover/validate` and `/import`. */
export const RecoverPost = Type.Object(
  { pools: Type.Union([Type.Array(RecoverPoolPost), Type.Null()]) },
  { $id: 'RecoverPost' },
);
export type RecoverPost = Static<typeof RecoverPost>;

/** An instance or custom volume that a pool holds and the server does not know. */
export const RecoverVolume = Type.Object(
  {
    name: Type.String(),
    /** `container`, or `volume` for a custom one. */
    type: Type.String(),
    snapshotCount: Type.Integer({ minimum: 0 }),
    project: Type.String(),
    pool: Type.String(),
  },
  { $id: 'RecoverVolume' },
);
export type RecoverVolume = Static<typeof RecoverVolume>;

/** What a search found, or what an import brought back. Names of the members are LXD's. */
export const RecoverResult = Type.Object(
  {
    UnknownVolumes: Type.Array(RecoverVolume),
    /** What has to be made first, for example `Profile "web" in project "default"`; nothing is imported before. */
    DependencyErrors: Type.Array(Type.String()),
    /** What cannot be brought back, one sentence each; LXD does not tell. */
    Problems: Type.Array(Type.String()),
  },
  { $id: 'RecoverResult' },
);
export type RecoverResult = Static<typeof RecoverResult>;
