import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { SystemClock } from '../core/clock.ts';
import { errors } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { pinoLog } from '../core/pino-log.ts';
import { StatePaths } from '../core/paths.ts';
import { raiseKernelLimits } from '../host/kernel-limits.ts';
import { endOrphans } from '../host/orphans.ts';
import { lockPidFile } from '../host/pid-lock.ts';
import { ServiceNotifier } from '../host/sd-notify.ts';
import { EventService } from '../services/events/event-service.ts';
import { openSqliteStore } from '../state/sqlite/sqlite-store.ts';
import { assemble } from './assemble.ts';
import { groupId } from './group.ts';
import { prepareStateFolder } from './state-folder.ts';

export interface RunOptions {
  readonly stateDir: string;
  /** Group that may use the socket: it must exist when given; else `keelson` where that exists. */
  readonly group: string | undefined;
  readonly debug: boolean;
  readonly version: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Milliseconds a clean stop may take before the daemon gives up on it. */
const STOP_TIMEOUT = 45_000;
/** Milliseconds that commands of a daemon that was killed are waited for. */
const ORPHANS_TIMEOUT = 5_000;

/** The reason of a stop that ends the guests too and unmounts the pools, as before the host goes down. */
export const WITH_GUESTS = 'with-guests';

/**
 * Runs the daemon until `stop` aborts; running instances stay, unless the reason is `WITH_GUESTS`. @throws locked when
 * another daemon has the folder, and whatever keeps it from starting.
 */
export async function runDaemon(options: RunOptions, stop: AbortSignal): Promise<void> {
  const { stateDir } = options;
  const paths = new StatePaths(stateDir);
  await mkdir(stateDir, { recursive: true });
  using lock = lockPidFile(join(stateDir, 'keelsond.lock'));
  const orphans = lock.killed === undefined ? [] : await endOrphans(lock.killed, ORPHANS_TIMEOUT);
  lock.take();
  await prepareStateFolder(paths); // empties the scratch folder, so only its owner may do it
  const socketGid = await socketGroup(options.group);
  const clock = new SystemClock();
  const events = new EventService({ clock });
  const logger = pino({ level: options.debug ? 'debug' : 'info', base: null });
  const log = pinoLog(logger, (event) => events.logging(event));
  keepAlive(log);
  for (const orphan of orphans) log.warn('A command of the daemon before still runs', { ...orphan });
  const notifier = new ServiceNotifier(options.environment);

  const started = performance.now();
  for (const limit of await raiseKernelLimits()) log.info('Raised a kernel limit for guests', { ...limit });
  const store = await openSqliteStore({ file: paths.database });
  const daemon = await assemble({
    stateDir,
    log,
    store,
    version: options.version,
    events,
    clock,
    ...(socketGid === undefined ? {} : { socketGid }),
    cephFolder: options.environment['KEELSON_CEPH_DIR'],
  });
  try {
    await daemon.start();
    notifier.ready();
    log.info('Ready', { socket: paths.socket, milliseconds: Math.round(performance.now() - started) });
    if (!stop.aborted) await new Promise((resolve) => stop.addEventListener('abort', resolve, { once: true }));
    if (stop.reason === WITH_GUESTS) {
      log.info('Stopping with all instances');
      await daemon.endGuests(); // the service manager's limit for a stop counts from `stopping`
    } else log.info('Stopping; instances keep running');
  } finally {
    notifier.stopping();
    const giveUp = setTimeout(() => {
      log.error('The daemon did not stop in time', { milliseconds: STOP_TIMEOUT });
      process.exit(1);
    }, STOP_TIMEOUT);
    giveUp.unref();
    await daemon[Symbol.asyncDispose]();
    clearTimeout(giveUp);
  }
}

async function socketGroup(wanted: string | undefined): Promise<number | undefined> {
  const id = await groupId(wanted ?? 'keelson');
  if (wanted !== undefined && id === undefined) throw errors.badRequest(`Group "${wanted}" does not exist`);
  return id;
}

/** A mistake in one request or one instance's work must not take down the daemon of all the others. */
function keepAlive(log: Log): void {
  process.on('uncaughtException', (error) => log.error('Uncaught exception', { error }));
  process.on('unhandledRejection', (error) => log.error('Unhandled rejection', { error }));
}
