import { randomIds, type Ids } from '../core/ids.ts';
import { SystemClock, type Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { LxcDriver } from '../drivers/instance/lxc/lxc-driver.ts';
import { InstanceDrivers } from '../drivers/instance/registry.ts';
import { readMachineFacts } from '../host/host-facts.ts';
import { FrontDoor } from '../http/front-door.ts';
import { HttpServer } from '../http/http-server.ts';
import type { HttpsListener } from '../http/listeners/https-listener.ts';
import { UnixListener } from '../http/listeners/unix-listener.ts';
import { eventRoutes } from '../http/routes/events.ts';
import { operationRoutes } from '../http/routes/operations.ts';
import { unboundRoutes } from '../http/unbound.ts';
import { TrustStore } from '../services/certificates/trust-store.ts';
import { EventService } from '../services/events/event-service.ts';
import type { ImageVolumes } from '../services/images/ports.ts';
import type { InstanceService } from '../services/instances/instance-service.ts';
import type { LivePools } from '../services/storage/live-pools.ts';
import { effectiveProject } from '../services/projects/scope.ts';
import type { Store } from '../state/store.ts';
import { certificatesVertical } from './certificates.ts';
import { openFoundations, type Foundations } from './foundations.ts';
import { createHttpsListener, UNIX_CALLER } from './listeners.ts';
import { driverFacts } from './driver-facts.ts';
import { imagesVertical } from './images.ts';
import { instancesVertical } from './instances.ts';
import { networksVertical } from './networks.ts';
import { profileGuard } from './profile-guard.ts';
import { profilesVertical } from './profiles.ts';
import { projectsVertical } from './projects.ts';
import type { ServerCertificate } from '../services/server/server-certificate.ts';
import { recoveryVertical } from './recovery.ts';
import { openServerParts, serverVertical } from './server.ts';
import { serverVolumesVertical } from './server-volumes.ts';
import { storageVertical } from './storage.ts';
import type { Vertical } from './vertical.ts';
import { warningsVertical } from './warnings.ts';

export interface DaemonOptions {
  readonly stateDir: string;
  readonly log: Log;
  /** Opened by the caller, disposed by the daemon. */
  readonly store: Store;
  readonly version: string;
  /** Group that may use the unix socket. */
  readonly socketGid?: number;
  readonly events?: EventService;
  readonly clock?: Clock;
  readonly ids?: Ids;
  /** Where the configurations of Ceph clusters are; default `/etc/ceph`. */
  readonly cephFolder?: string | undefined;
}

/** The daemon, built; `start` makes it answer, dispose takes it down in reverse. Instances and networks stay up. */
export interface Daemon extends AsyncDisposable {
  readonly door: FrontDoor;
  start(): Promise<void>;
  /** For a host that goes down: takes no more requests and ends every guest; disposing then unmounts the pools. */
  endGuests(): Promise<void>;
}

/** Builds every object once. */
export async function assemble(options: DaemonOptions): Promise<Daemon> {
  await using stack = new AsyncDisposableStack();
  const clock = options.clock ?? new SystemClock();
  const events = options.events ?? new EventService({ clock });
  const store = stack.use(options.store);
  const { stateDir, log, ids = randomIds, cephFolder } = options;
  const base = await openFoundations({ stateDir, store, events, log, clock, ids }, stack);
  const projectExists = (name: string): boolean => name === 'default' || base.records.projects.get(name) !== undefined;

  // The listener needs the door, the door the routes, and the server's own routes the listener. Images serve storage
  // and instances, and ask both.
  const late: { https?: HttpsListener; imageVolumes?: ImageVolumes; instances?: InstanceService } = {};
  const server = await openServerParts(base, () => {
    if (late.https === undefined) throw new Error('The HTTPS listener is not there yet');
    return late.https;
  });
  const projects = projectsVertical(base);
  const profiles = profilesVertical(
    base,
    profileGuard(projects.guard, () => the(late.instances, 'instances')),
  );
  const networks = networksVertical(base, projects.guard, stack);
  const { architecture } = await readMachineFacts();
  const images = imagesVertical(
    base,
    {
      architecture,
      config: (key) => server.config.value(key),
      volumes: () => late.imageVolumes,
      instances: () => late.instances?.publish,
    },
    stack,
  );
  const drivers = new InstanceDrivers([new LxcDriver({ root: base.paths.lxc, log })]);
  for (const one of drivers.all()) stack.defer(() => one.dispose());
  const driver = drivers.get('container');
  const warnings = warningsVertical(base);
  const others = { images: images.forInstances, guests: driver, warnings: warnings.service };
  const storage = storageVertical(base, { ...others, config: server.config, guard: projects.guard, cephFolder }, stack);
  late.imageVolumes = storage.imageVolumes;
  const instances = await instancesVertical(
    base,
    {
      driver,
      storage: storage.forInstances,
      volumes: storage.attachable,
      migrations: storage.migrations,
      images: images.forInstances,
      networks: networks.nics,
      guard: projects.guard,
      backupCompression: () => server.config.value('backups.compression_algorithm'),
    },
    stack,
  );
  late.instances = instances.service;
  const verticals: Vertical[] = [
    projects,
    profiles,
    certificatesVertical(base, server, projectExists),
    networks,
    serverVolumesVertical(base, storage, server.config),
    storage,
    images,
    instances,
    recoveryVertical(base, { live: storage.live, instances: instances.service }, stack),
    warnings,
    { routes: [...operationRoutes(base.operations), ...eventRoutes(events)] },
    await serverVertical(base, server, await driverFacts(drivers.all(), storage.drivers.all()), options.version),
  ];

  const { door, https, unix } = openFront(base, verticals, {
    projectExists,
    certificate: server.certificate,
    gid: options.socketGid,
  });
  late.https = stack.use(https);
  const parts = stack.move();
  return {
    door,
    start: () => start({ base, verticals, unix, stack: parts }),
    endGuests: () => endGuests([unix, https, base.operations], instances.service, storage.live),
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

function the<T>(part: T | undefined, name: string): T {
  if (part === undefined) throw new Error(`The ${name} are not there yet`);
  return part;
}

/** Nothing new begins and what runs is interrupted first, so that no instance is locked for long. */
async function endGuests(
  busy: readonly AsyncDisposable[],
  instances: InstanceService,
  pools: LivePools,
): Promise<void> {
  for (const part of busy) await part[Symbol.asyncDispose]();
  await instances.shutdownAll();
  pools.release();
}

interface FrontOptions {
  readonly projectExists: (name: string) => boolean;
  readonly certificate: ServerCertificate;
  readonly gid: number | undefined;
}

/** The front door and who listens for it; nothing listens yet. */
function openFront(
  { records, clock, log, paths }: Foundations,
  verticals: readonly Vertical[],
  { projectExists, certificate, gid }: FrontOptions,
): { door: FrontDoor; https: HttpsListener; unix: UnixListener } {
  const bound = verticals.flatMap(({ routes }) => routes);
  const bindings = [...bound, ...unboundRoutes(bound)];
  const door = new FrontDoor({
    bindings,
    projects: {
      exists: projectExists,
      homeOf: (project, feature) => effectiveProject(records.projects, project, feature),
    },
    log,
  });
  const trust = new TrustStore(records.certificates, () => clock.now());
  return {
    door,
    https: createHttpsListener({ door, trust, certificate, log }),
    unix: new UnixListener({ server: new HttpServer(door, () => UNIX_CALLER), path: paths.socket, gid }),
  };
}

interface Startable {
  readonly base: Foundations;
  readonly verticals: readonly Vertical[];
  readonly unix: UnixListener;
  readonly stack: AsyncDisposableStack;
}

/** Undoes what a crash left, brings the host in line, then answers. */
async function start({ base, verticals, unix, stack }: Startable): Promise<void> {
  for (const vertical of verticals) {
    await vertical
      .prepare?.()
      .catch((error: unknown) => base.log.error('A part of the daemon did not open', { error }));
  }
  await base.intents.recover();
  for (const vertical of verticals) {
    await vertical.start?.().catch((error: unknown) => base.log.error('A part of the daemon did not start', { error }));
  }
  await unix.start();
  stack.use(unix);
  for (const vertical of verticals) {
    void vertical.afterReady?.().catch((error: unknown) => base.log.error('Start-up work failed', { error }));
  }
}
