import type { Cluster as ClusterRecord, ClusterMember as ClusterMemberRecord } from '@keelson/api';
import { Manager } from '../manager.ts';
import { type CallOptions, defineAttributes, Model, type ModelContext } from '../model.ts';

const CLUSTER_FIELDS = ['enabled', 'server_name', 'member_config'] as const;
const MEMBER_FIELDS = [
  'server_name',
  'url',
  'database',
  'status',
  'message',
  'architecture',
  'roles',
  'config',
  'description',
  'failure_domain',
  'groups',
] as const;
const MEMBER_WRITABLE = ['config', 'description', 'failure_domain', 'groups', 'roles'] as const;

/** The cluster this server belongs to. */
export class Cluster extends Model<ClusterRecord> {
  /** Whether the server is part of a cluster. */
  declare readonly enabled: ClusterRecord['enabled'];
  /** Name of this server in it. */
  declare readonly server_name: ClusterRecord['server_name'];
  /** Config keys that a joining server has to give. */
  declare readonly member_config: ClusterRecord['member_config'];
  /** The servers of the cluster. `/1.0/cluster/members` */
  readonly members: ClusterMemberManager;

  /** @internal */
  constructor(context: ModelContext) {
    super(
      context,
      { path: context.connection.path('cluster'), label: 'Cluster', writable: ['enabled', 'server_name'] },
      {},
      false,
    );
    this.members = new ClusterMemberManager(context);
  }
}
defineAttributes<ClusterRecord>(Cluster, CLUSTER_FIELDS, []);

/** `client.cluster` */
export class ClusterManager {
  /** `client.cluster.members` */
  readonly members: ClusterMemberManager;
  readonly #context: ModelContext;

  /** @internal */
  constructor(context: ModelContext) {
    this.#context = context;
    this.members = new ClusterMemberManager(context);
  }

  /** `GET /1.0/cluster` @throws APIExtensionNotAvailable without the extension `clustering` */
  async get(options: CallOptions = {}): Promise<Cluster> {
    await this.#context.assertExtension('clustering');
    return new Cluster(this.#context).sync(options);
  }
}

/** A server of the cluster, identified by its name. */
export class ClusterMember extends Model<ClusterMemberRecord> {
  /** Name, unique in the cluster. */
  declare readonly server_name: ClusterMemberRecord['server_name'];
  /** `https://host:port` of the member. */
  declare readonly url: ClusterMemberRecord['url'];
  /** Whether it holds a part of the database. */
  declare readonly database: ClusterMemberRecord['database'];
  /** `Online`, `Offline`, `Evacuated`, … */
  declare readonly status: ClusterMemberRecord['status'];
  /** `status` in a sentence. */
  declare readonly message: ClusterMemberRecord['message'];
  /** For example `x86_64`. */
  declare readonly architecture: ClusterMemberRecord['architecture'];
  /** Settings of the member, all text. */
  declare config: ClusterMemberRecord['config'];
  /** For people. */
  declare description: ClusterMemberRecord['description'];
  /** Members that fail together have the same. */
  declare failure_domain: ClusterMemberRecord['failure_domain'];
  /** Groups that it belongs to. */
  declare groups: ClusterMemberRecord['groups'];
  /** What it does for the cluster, for example `database`. */
  declare roles: ClusterMemberRecord['roles'];

  /** @internal */
  constructor(context: ModelContext, name: string, record: Partial<ClusterMemberRecord>, populated: boolean) {
    const path = context.connection.path('cluster', 'members', name);
    super(
      context,
      { path, label: `Cluster member "${name}"`, writable: MEMBER_WRITABLE },
      { ...record, server_name: name },
      populated,
    );
  }
}
defineAttributes<ClusterMemberRecord>(ClusterMember, MEMBER_FIELDS, MEMBER_WRITABLE);

/** `client.cluster.members` */
export class ClusterMemberManager extends Manager<ClusterMemberRecord, ClusterMember, 'server_name'> {
  /** @internal */
  constructor(context: ModelContext) {
    super(context, {
      path: context.connection.path('cluster', 'members'),
      fields: MEMBER_FIELDS,
      key: 'server_name',
      extension: 'clustering',
      make: (name, record, populated, scoped = context) => new ClusterMember(scoped, name, record, populated),
    });
  }
}
