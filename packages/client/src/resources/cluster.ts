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
  declare readonly enabled: boolean;
  declare readonly server_name: string;
  declare readonly member_config: ClusterRecord['member_config'];
  readonly members: ClusterMemberManager;

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
  declare readonly server_name: string;
  declare readonly url: string;
  declare readonly database: boolean;
  declare readonly status: string;
  declare readonly message: string;
  declare readonly architecture: string;
  declare config: ClusterMemberRecord['config'];
  declare description: string;
  declare failure_domain: string;
  declare groups: ClusterMemberRecord['groups'];
  declare roles: ClusterMemberRecord['roles'];

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
