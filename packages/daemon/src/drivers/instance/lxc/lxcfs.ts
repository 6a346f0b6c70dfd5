import type { Log } from '../../../core/log.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import { isLxcfsServing, type LxcfsPlace, startLxcfs } from '../../../host/tools/lxcfs.ts';

/** Where Debian's service has it. */
const PLACE: LxcfsPlace = {
  mountPoint: '/var/lib/lxcfs',
  pidFile: '/run/keelson-lxcfs.pid',
  logFile: '/run/keelson-lxcfs.log',
};

/** The machine's lxcfs; started here where no init system does it. Guests run without one, too. */
export class Lxcfs {
  readonly #log: Log;
  readonly #place: LxcfsPlace;
  #starting: Promise<void> | undefined;
  #absent = false;

  constructor(log: Log, place: LxcfsPlace = PLACE) {
    this.#log = log;
    this.#place = place;
  }

  /** Mount point of a running lxcfs; undefined when there is none and none can be started. */
  async ensure(): Promise<string | undefined> {
    const { mountPoint } = this.#place;
    if (await isLxcfsServing(mountPoint)) return mountPoint;
    if (this.#absent) return undefined;
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    await this.#starting;
    return (await isLxcfsServing(mountPoint)) ? mountPoint : undefined;
  }

  async #start(): Promise<void> {
    try {
      await startLxcfs(this.#place);
    } catch (error) {
      if (await isLxcfsServing(this.#place.mountPoint)) return; // another daemon was faster
      this.#absent = errnoOf(error) === 'ENOENT';
      this.#log.warn('lxcfs is not running: instances see the memory and processors of the host', { error });
    }
  }
}
