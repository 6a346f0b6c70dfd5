import { constants } from 'node:fs';
import { access, mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sleep } from '../../core/retry.ts';
import { loadModule } from '../kernel-module.ts';
import { isMountPoint, unmountAll } from '../mounts.ts';
import { commandLine, identify, sendSignal, waitForEnd } from '../proc.ts';
import { COMMAND_ENVIRONMENT, run } from '../run.ts';
import { rbd, type RbdPlace } from './rbd.ts';

/** Milliseconds that whoever looks at new devices, or a guest's namespace that goes, has a device after it was to go. */
const LETTING_GO = 15_000;

/** Makes block devices of RBD images. */
export interface RbdMapper {
  readonly kind: 'krbd' | 'nbd' | 'qemu';
  /** Device of a mapped image. */
  device(place: RbdPlace, image: string): Promise<string | undefined>;
  /** Idempotent. */
  map(place: RbdPlace, image: string): Promise<string>;
  /** Idempotent. A device that something still uses stays. */
  unmap(place: RbdPlace, image: string): Promise<void>;
  /** Makes a mapped image, and its device, `size` bytes large. */
  grow(place: RbdPlace, image: string, size: number): Promise<void>;
}

/** The mapper this host has, or why it has none. `folder`: where the process of a mapping keeps its files. */
export async function findMapper(folder: string): Promise<RbdMapper | { readonly reason: string }> {
  await loadModule('rbd');
  if (await exists('/sys/bus/rbd')) return new DeviceMapper('krbd');
  await loadModule('nbd');
  if ((await exists('/sys/module/nbd')) && (await exists('/usr/bin/rbd-nbd', constants.X_OK)))
    return new DeviceMapper('nbd');
  if (!(await exists('/dev/fuse'))) return { reason: 'the kernel has none of rbd, nbd and fuse' };
  if (!(await hasStorageDaemon()))
    return {
      reason:
        'the kernel has neither rbd nor nbd, and there is no qemu-storage-daemon with rbd and FUSE (qemu-system-common, qemu-block-extra)',
    };
  return new QemuMapper(folder);
}

/** Asks for the two parts that are built apart, or left out. */
async function hasStorageDaemon(): Promise<boolean> {
  try {
    const driver = await run('qemu-storage-daemon', ['--blockdev', 'driver=rbd,node-name=n'], { ok: [0, 1] });
    const target = ['--export', 'type=fuse,id=e,node-name=n,mountpoint=/'];
    const exported = await run('qemu-storage-daemon', target, { ok: [0, 1] });
    return (
      !/Unknown driver|not found/.test(driver.stderr) && !/Invalid parameter|does not accept/.test(exported.stderr)
    );
  } catch {
    return false;
  }
}

interface DeviceRow {
  readonly pool: string;
  /** krbd's word. */
  readonly name?: string;
  /** rbd-nbd's. */
  readonly image?: string;
  readonly snap?: string;
  readonly device: string;
}

/** Device of the image in what `rbd device list --format json` says. */
export function deviceAmong(rows: readonly DeviceRow[], pool: string, image: string): string | undefined {
  const own = rows.find((row) => row.pool === pool && (row.name ?? row.image) === image && isHead(row.snap));
  return own?.device;
}

function isHead(snapshot: string | undefined): boolean {
  return snapshot === undefined || snapshot === '' || snapshot === '-';
}

/** The kernel's own client, or rbd-nbd. */
class DeviceMapper implements RbdMapper {
  readonly kind: 'krbd' | 'nbd';

  constructor(kind: 'krbd' | 'nbd') {
    this.kind = kind;
  }

  async device(place: RbdPlace, image: string): Promise<string | undefined> {
    const text = await rbd(place, ['device', 'list', '--device-type', this.kind, '--format', 'json']);
    return deviceAmong(JSON.parse(text), place.pool, image);
  }

  async map(place: RbdPlace, image: string): Promise<string> {
    const known = await this.device(place, image);
    if (known !== undefined) return known;
    return (await rbd(place, ['device', 'map', '--device-type', this.kind, '--image', image])).trim();
  }

  async unmap(place: RbdPlace, image: string): Promise<void> {
    const device = await this.device(place, image);
    if (device === undefined) return;
    const deadline = performance.now() + LETTING_GO;
    do {
      try {
        await rbd(place, ['device', 'unmap', '--device-type', this.kind, device]);
        return;
      } catch {
        await sleep(100);
      }
    } while (performance.now() < deadline);
  }

  async grow(place: RbdPlace, image: string, size: number): Promise<void> {
    await rbd(place, ['resize', '--no-progress', '--image', image, '--size', `${size}B`]);
  }
}

/** Command line of the process that shows an image as a file. */
export function storageDaemonArguments(place: RbdPlace, image: string, files: { file: string; pid: string }): string[] {
  const { conf, user, pool } = place;
  const node = { driver: 'rbd', 'node-name': 'image', pool, image, conf, user, discard: 'unmap' };
  const shown = { type: 'fuse', id: 'file', 'node-name': 'image', mountpoint: files.file, writable: true };
  const parts = ['--blockdev', JSON.stringify(node), '--export', JSON.stringify({ ...shown, 'allow-other': 'off' })];
  return ['--daemonize', '--pidfile', files.pid, ...parts];
}

/**
 * For hosts whose kernel has neither client: a process per image (qemu-storage-daemon) shows it as a file, and a loop
 * device stands for that. The process is not the daemon's child: devices outlive a restart.
 */
class QemuMapper implements RbdMapper {
  readonly kind = 'qemu';
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async device(_place: RbdPlace, image: string): Promise<string | undefined> {
    return loopOver(this.#files(image).file);
  }

  async map(place: RbdPlace, image: string): Promise<string> {
    const files = this.#files(image);
    const known = await loopOver(files.file);
    if (known !== undefined && (await this.#process(image)) !== undefined) return known;
    await this.unmap(place, image); // what an earlier process left
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await writeFile(files.file, '', { mode: 0o600 });
    await run('qemu-storage-daemon', storageDaemonArguments(place, image, files), { env: COMMAND_ENVIRONMENT });
    const { stdout } = await run('losetup', ['--find', '--show', '--direct-io=on', '--', files.file]);
    return stdout.trim();
  }

  async unmap(_place: RbdPlace, image: string): Promise<void> {
    const { file, pid } = this.#files(image);
    const loop = await loopOver(file);
    if (loop !== undefined) {
      await run('losetup', ['--detach', loop], { ok: [0, 1] });
      if (!(await this.#isFree(file))) return;
    }
    const found = await this.#process(image);
    if (found !== undefined) {
      sendSignal(found, SIGTERM);
      if (!(await waitForEnd(found, 30_000))) {
        sendSignal(found, SIGKILL);
        await waitForEnd(found, LETTING_GO);
      }
    }
    if (isMountPoint(file)) await unmountAll(file, { lazy: true });
    await rm(file, { force: true });
    await rm(pid, { force: true });
  }

  async grow(_place: RbdPlace, image: string, size: number): Promise<void> {
    const { file } = this.#files(image);
    await truncate(file, size);
    const loop = await loopOver(file);
    if (loop !== undefined) await run('losetup', ['--set-capacity', loop]);
  }

  async #isFree(file: string): Promise<boolean> {
    const deadline = performance.now() + LETTING_GO;
    do {
      if ((await loopOver(file)) === undefined) return true;
      await sleep(50);
    } while (performance.now() < deadline);
    return false;
  }

  /** The process of the image, if it runs. */
  async #process(image: string): Promise<ReturnType<typeof identify>> {
    const { file, pid } = this.#files(image);
    const number = Number(await readFile(pid, 'utf8').catch(() => ''));
    if (!(number > 1) || !commandLine(number).some((argument) => argument.includes(JSON.stringify(file))))
      return undefined;
    return identify(number);
  }

  #files(image: string): { readonly file: string; readonly pid: string } {
    return { file: join(this.#folder, image), pid: join(this.#folder, `${image}.pid`) };
  }
}

const [SIGKILL, SIGTERM] = [9, 15];

/** Loop device over the file, without touching the file. */
async function loopOver(file: string): Promise<string | undefined> {
  for (const name of await readdir('/sys/block')) {
    if (!name.startsWith('loop')) continue;
    const backing = await readFile(`/sys/block/${name}/loop/backing_file`, 'utf8').catch(() => '');
    if (backing.trim() === file) return `/dev/${name}`;
  }
  return undefined;
}

function exists(path: string, mode = constants.F_OK): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}
