import { Type, type Static } from 'typebox';
import { Nullable, StringMap, Timestamp } from './common.ts';

/** A config key that a joining member has to answer for. */
export const ClusterMemberConfigKey = Type.Object(
  {
    description: Type.Optional(Type.String()),
    entity: Type.Optional(Type.String()),
    key: Type.Optional(Type.String()),
    name: Type.Optional(Type.String()),
    value: Type.Optional(Type.String()),
  },
  { $id: 'ClusterMemberConfigKey' },
);
export type ClusterMemberConfigKey = Static<typeof ClusterMemberConfigKey>;

/** Bootstraps, joins or leaves a cluster. `PUT /1.0/cluster`. */
export const ClusterPut = Type.Object(
  {
    cluster_address: Type.Optional(Type.String()),
    cluster_certificate: Type.Optional(Type.String()),
    cluster_password: Type.Optional(Type.String()),
    enabled: Type.Optional(Type.Boolean()),
    member_config: Type.Optional(Type.Array(ClusterMemberConfigKey)),
    server_address: Type.Optional(Type.String()),
    server_name: Type.Optional(Type.String()),
  },
  { $id: 'ClusterPut' },
);
export type ClusterPut = Static<typeof ClusterPut>;

/** This server's place in a cluster. `GET /1.0/cluster`. */
export const Cluster = Type.Object(
  {
    enabled: Type.Boolean(),
    member_config: Nullable(Type.Array(ClusterMemberConfigKey)),
    server_name: Type.String(),
  },
  { $id: 'Cluster' },
);
export type Cluster = Static<typeof Cluster>;

/** Writable part of a cluster member. */
export const ClusterMemberPut = Type.Object(
  {
    config: Type.Optional(StringMap),
    description: Type.Optional(Type.String()),
    failure_domain: Type.Optional(Type.String()),
    groups: Type.Optional(Type.Array(Type.String())),
    roles: Type.Optional(Type.Array(Type.String())),
  },
  { $id: 'ClusterMemberPut' },
);
export type ClusterMemberPut = Static<typeof ClusterMemberPut>;

/** Asks for a token that lets a server join. `POST /1.0/cluster/members`. */
export const ClusterMembersPost = Type.Object(
  {
    server_name: Type.String(),
  },
  { $id: 'ClusterMembersPost' },
);
export type ClusterMembersPost = Static<typeof ClusterMembersPost>;

/** Renames a cluster member. `POST /1.0/cluster/members/:name`. */
export const ClusterMemberPost = Type.Object(
  {
    server_name: Type.String(),
  },
  { $id: 'ClusterMemberPost' },
);
export type ClusterMemberPost = Static<typeof ClusterMemberPost>;

/** Evacuates or restores a cluster member. `POST /1.0/cluster/members/:name/state`. */
export const ClusterMemberStatePost = Type.Object(
  {
    action: Type.String(),
    mode: Type.Optional(Type.String()),
  },
  { $id: 'ClusterMemberStatePost' },
);
export type ClusterMemberStatePost = Static<typeof ClusterMemberStatePost>;

/** A cluster member. `GET /1.0/cluster/members/:name`. */
export const ClusterMember = Type.Object(
  {
    architecture: Type.String(),
    config: Nullable(StringMap),
    database: Type.Boolean(),
    description: Type.String(),
    failure_domain: Type.String(),
    groups: Nullable(Type.Array(Type.String())),
    message: Type.String(),
    roles: Nullable(Type.Array(Type.String())),
    server_name: Type.String(),
    status: Type.String(),
    url: Type.String(),
  },
  { $id: 'ClusterMember' },
);
export type ClusterMember = Static<typeof ClusterMember>;

/** Content of the base64 token that lets a server join. */
export const ClusterMemberJoinToken = Type.Object(
  {
    addresses: Type.Array(Type.String()),
    expires_at: Timestamp,
    fingerprint: Type.String(),
    secret: Type.String(),
    server_name: Type.String(),
  },
  { $id: 'ClusterMemberJoinToken' },
);
export type ClusterMemberJoinToken = Static<typeof ClusterMemberJoinToken>;
