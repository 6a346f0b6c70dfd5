import type { Resources, Server, ServerUntrusted } from '@keelson/api';
import { apiNode, respond } from './api-node.ts';
import type { ApiNode, ApiResponse } from './api-types.ts';
import { Connection } from './connection.ts';
import { APIExtensionNotAvailable } from './errors.ts';
import { type EventsOptions, EventStream } from './events.ts';
import type { CallOptions, ModelContext } from './model.ts';
import { OperationWaiter } from './operation-waiter.ts';
import { CertificateManager, trustSecret } from './resources/certificate.ts';
import { ClusterManager } from './resources/cluster.ts';
import { ImageManager } from './resources/image.ts';
import { InstanceManager } from './resources/instance-manager.ts';
import { NetworkManager } from './resources/network.ts';
import { OperationManager } from './resources/operation.ts';
import { ProfileManager } from './resources/profile.ts';
import { ProjectManager } from './resources/project.ts';
import { StoragePoolManager } from './resources/storage-pool.ts';
import type { Transport } from './transport/types.ts';
import type { Warnings } from './warnings.ts';

/** How a client sees the server, whatever the way to it. */
export interface BaseClientOptions {
  /** API version, the prefix of every path (default `1.0`). */
  readonly version?: string;
  /** Project that requests are about (default the server's `default`). */
  readonly project?: string;
  /** Cluster member that requests are about. */
  readonly target?: string;
}

/** Everything but the way to the server; `Client` adds that for Node and for browsers. */
export class BaseClient implements AsyncDisposable {
  /** Containers and virtual machines. `/1.0/instances` */
  readonly instances: InstanceManager;
  /** The instances that are containers. */
  readonly containers: InstanceManager;
  /** The instances that are virtual machines. */
  readonly virtualMachines: InstanceManager;
  /** What instances are made from. `/1.0/images` */
  readonly images: ImageManager;
  /** Background operations. `/1.0/operations` */
  readonly operations: OperationManager;
  /** Config and devices that instances share. `/1.0/profiles` */
  readonly profiles: ProfileManager;
  /** Pools, and in each its volumes. `/1.0/storage-pools` */
  readonly storagePools: StoragePoolManager;
  /** Networks, also those of the host. `/1.0/networks` */
  readonly networks: NetworkManager;
  /** Clients that the server trusts. `/1.0/certificates` */
  readonly certificates: CertificateManager;
  /** The cluster, and in it `members`. `/1.0/cluster` */
  readonly cluster: ClusterManager;
  /** Name spaces. `/1.0/projects` */
  readonly projects: ProjectManager;
  /** `GET /1.0` and its settings. */
  readonly server: ServerInfo;
  /** Low-level access: every attribute or index adds one URL part, `get()` and its kin send the request. */
  readonly api: ApiNode<'/1.0'>;
  readonly #connection: Connection;

  /** @internal */
  constructor(transport: Transport, options: BaseClientOptions, warnings: Warnings) {
    const { version = '1.0', project, target } = options;
    const connection = new Connection(transport, { version, project, target });
    this.#connection = connection;
    this.server = new ServerInfo(connection);
    const context: ModelContext = {
      connection,
      operations: new OperationWaiter(connection, warnings),
      hasExtension: (name) => this.hasApiExtension(name),
      assertExtension: (name) => this.assertHasApiExtension(name),
    };
    this.instances = new InstanceManager(context);
    this.containers = new InstanceManager(context, 'container');
    this.virtualMachines = new InstanceManager(context, 'virtual-machine');
    this.images = new ImageManager(context);
    this.operations = new OperationManager(context);
    this.profiles = new ProfileManager(context);
    this.storagePools = new StoragePoolManager(context);
    this.networks = new NetworkManager(context);
    this.certificates = new CertificateManager(context);
    this.cluster = new ClusterManager(context);
    this.projects = new ProjectManager(context);
    this.api = apiNode(connection, connection.path());
  }

  /** Where the server is: `unix:/path` or `https://host:port`. */
  get endpoint(): string {
    return this.#connection.transport.endpoint;
  }

  /** Sends a request to any path; errors come back as answers. For paths known only at run time. */
  request(method: string, path: string, json?: unknown, options: CallOptions = {}): Promise<ApiResponse> {
    return respond(this.#connection, method, path, { json, signal: options.signal });
  }

  /** Whether the server offers an extension; the list is fetched once. `GET /1.0` */
  async hasApiExtension(name: string): Promise<boolean> {
    return (await this.server.extensions()).has(name);
  }

  /** As `hasApiExtension`, and throws. `GET /1.0` @throws APIExtensionNotAvailable when the server lacks it */
  async assertHasApiExtension(name: string): Promise<void> {
    if (!(await this.hasApiExtension(name))) throw new APIExtensionNotAvailable(name);
  }

  /** Events of the server, `types` of them or all. See EventStream for reconnecting and ending. */
  events(options: EventsOptions = {}): EventStream {
    return new EventStream(this.#connection, options);
  }

  /** Closes the connections. Running waits and streams end with an error. */
  async close(): Promise<void> {
    await this.#connection.transport.close();
  }

  /** As `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Makes the server trust the certificate that this client presents, with the trust password or a token of
   * `trust add`. `POST /1.0/certificates` @throws APIException when the secret is wrong
   */
  async authenticate(secret: string, options: CallOptions = {}): Promise<void> {
    const json = { type: 'client', ...trustSecret(secret) };
    const path = this.#connection.path('certificates');
    await this.#connection.request('POST', path, { json, signal: options.signal });
    this.server.forget();
  }
}

/** `client.server`: the server's own record and settings. */
export class ServerInfo {
  readonly #connection: Connection;
  #extensions: Promise<ReadonlySet<string>> | undefined;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `GET /1.0`; an untrusted client sees less. */
  async get(options: CallOptions = {}): Promise<Server | ServerUntrusted> {
    const path = this.#connection.path();
    return this.#connection.get<Server | ServerUntrusted>(path, { signal: options.signal });
  }

  /** CPUs, memory, disks and cards of the host. `GET /1.0/resources` */
  async resources(options: CallOptions = {}): Promise<Resources> {
    return this.#connection.get<Resources>(this.#connection.path('resources'), { signal: options.signal });
  }

  /** Changes settings and leaves the others. `PATCH /1.0` @throws APIException naming the key */
  async patch(config: Readonly<Record<string, string>>, options: CallOptions = {}): Promise<void> {
    await this.#connection.request('PATCH', this.#connection.path(), { json: { config }, signal: options.signal });
  }

  /** Replaces all settings. `PUT /1.0` @throws APIException naming the key */
  async put(config: Readonly<Record<string, string>>, options: CallOptions = {}): Promise<void> {
    await this.#connection.request('PUT', this.#connection.path(), { json: { config }, signal: options.signal });
  }

  /** Names of the API extensions; fetched once. `GET /1.0` */
  extensions(): Promise<ReadonlySet<string>> {
    this.#extensions ??= this.get().then(
      (server) => new Set(server.api_extensions),
      (error: unknown) => {
        this.#extensions = undefined;
        throw error;
      },
    );
    return this.#extensions;
  }

  /** @internal Fetches again next time. */
  forget(): void {
    this.#extensions = undefined;
  }
}
