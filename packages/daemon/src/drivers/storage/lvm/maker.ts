import { chmod, mkdir, rm, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { copyTree, removeTree } from '../../../host/files.ts';
import { isMountPoint, unmountAll } from '../../../host/mounts.ts';
import {
  blockFileSystem,
  contentSize,
  copyBlocks,
  growBlockFileSystem,
  makeBlockFileSystem,
  renewIdentity,
  shrinkExt4,
  syncMounted,
} from '../../../host/tools/block-fs.ts';
import { contentFile } from '../common/volume-names.ts';
import type { VolumeRef } from '../contract.ts';
import type { LvmContext } from './context.ts';
import type { LvmMounter } from './mounter.ts';
import { isBlock, SCRATCH } from './names.ts';
import {
  addTag,
  createVolume,
  fileSystemOf,
  fileSystemTag,
  renameVolume,
  resizePlan,
  resizeVolume,
  sizeOf,
  snapshotVolume,
} from './plan.ts';

type Config = Readonly<Record<string, string>>;

const MODES = { container: 0o100, 'virtual-machine': 0o100, image: 0o711, custom: 0o711 } as const;

/** Makes logical volumes under a scratch name; they get their own when they are complete. */
export class LvmMaker {
  readonly #pool: LvmContext;
  readonly #mounter: LvmMounter;

  constructor(pool: LvmContext, mounter: LvmMounter) {
    this.#pool = pool;
    this.#mounter = mounter;
  }

  /** Calls `make` with a scratch name, then gives what it made the name `target`; removes it when that fails. */
  async publish(target: string, make: (scratch: string) => Promise<void>): Promise<void> {
    const { volumes, newId } = this.#pool;
    const scratch = `${SCRATCH}${newId()}`;
    try {
      await make(scratch);
      await volumes.deactivate(scratch);
      await volumes.run(renameVolume(volumes.place, scratch, target));
    } catch (error) {
      const explained = await volumes.explained(error);
      await volumes.remove([scratch]);
      throw explained;
    }
  }

  /** A file system that `fill` fills. */
  async fileSystem(
    name: string,
    volume: VolumeRef,
    config: Config,
    fill: (path: string) => Promise<void>,
  ): Promise<void> {
    const { volumes } = this.#pool;
    const type = fileSystemOf(config);
    await volumes.run(createVolume(volumes.place, name, sizeOf(config), config));
    await makeBlockFileSystem(volumes.device(name), type, { zeroed: volumes.thin });
    // Clones of an image are made of it where they want the file system it has.
    if (volume.type === 'image') await volumes.run(addTag(volumes.place, name, fileSystemTag(type)));
    await this.withMounted(name, async (path) => {
      await rmdir(join(path, 'lost+found')).catch(() => undefined); // a check makes it again when it needs it
      await chmod(path, MODES[volume.type]);
      await fill(path);
    });
  }

  /** A device with the disk that `fill` writes into a scratch folder; at least as large as the config says. */
  async disk(name: string, volume: VolumeRef, config: Config, fill?: (path: string) => Promise<void>): Promise<void> {
    const { volumes, staging } = this.#pool;
    if (fill === undefined) {
      await volumes.run(createVolume(volumes.place, name, sizeOf(config), config));
      return;
    }
    const folder = join(staging, name);
    await mkdir(folder, { mode: 0o700 });
    try {
      await fill(folder);
      const file = join(folder, contentFile(volume));
      const needed = (await stat(file)).size;
      const asked = volume.type === 'image' ? 0 : sizeOf(config);
      await volumes.run(createVolume(volumes.place, name, Math.max(needed, asked), config));
      await copyBlocks(file, volumes.device(name), { zeroed: volumes.thin });
    } finally {
      await removeTree(folder);
    }
  }

  /** Another volume with the same content: a thin snapshot, or a copy of every file or block. */
  async copy(from: { readonly name: string; readonly volume: VolumeRef }, name: string, config: Config): Promise<void> {
    const { volumes } = this.#pool;
    if (!volumes.thin) return this.#copyInFull(from, name, config);
    await volumes.run(
      snapshotVolume(volumes.place, { from: from.name, name, readOnly: false, activate: !isBlock(from.volume) }),
    );
    if (!isBlock(from.volume)) await this.#renew(volumes.device(name));
  }

  /** What was written is on the disk in the end. @throws SyscallError when it could not be: a thin pool may be full. */
  async withMounted<T>(name: string, use: (path: string) => Promise<T>, readOnly = false): Promise<T> {
    const path = join(this.#pool.staging, name);
    const device = await this.#pool.volumes.activate(name);
    await this.#mounter.mountDevice(device, path, '', readOnly);
    try {
      const result = await use(path);
      if (!readOnly) await syncMounted(path);
      return result;
    } finally {
      await unmountAll(path);
      await rm(path, { recursive: true, force: true });
    }
  }

  /** Resizes a volume with its file system, which is mounted at `path` if that is a mount point. @throws bad-request. */
  async resize(name: string, volume: VolumeRef, path: string, size: number): Promise<void> {
    const { volumes } = this.#pool;
    const found = await volumes.find(name);
    if (found === undefined) throw errors.notFound('Storage volume not found');
    const block = isBlock(volume);
    const wasActive = block ? false : isMountPoint(path);
    const device = block ? volumes.device(name) : await volumes.activate(name);
    const type = block ? undefined : await blockFileSystem(device);
    const mounted = isMountPoint(path);
    try {
      const plan = resizePlan({ name: volume.name, current: found.size, wanted: size, fileSystem: type, mounted });
      if (plan === 'nothing') return;
      if (!volumes.thin && (await volumes.list()).some(({ origin }) => origin === name)) {
        const reason = 'its snapshots were made for the size it has; delete them first';
        throw errors.badRequest(`Cannot resize volume "${volume.name}" without a thin pool: ${reason}`);
      }
      if (plan === 'shrink') await shrinkTo(device, volume, size);
      await volumes.run(resizeVolume(volumes.place, name, size));
      if (plan === 'grow' && type !== undefined) await growBlockFileSystem(device, type, mounted ? path : undefined);
    } finally {
      if (!block && !wasActive) await volumes.deactivate(name);
    }
  }

  async #copyInFull(
    from: { readonly name: string; readonly volume: VolumeRef },
    name: string,
    config: Config,
  ): Promise<void> {
    const { volumes } = this.#pool;
    if ((await volumes.find(from.name)) === undefined) throw errors.notFound('Storage volume not found');
    const device = await volumes.activate(from.name);
    // What LVM tells of a plain snapshot is the space kept for its changes.
    const size = await contentSize(device);
    if (isBlock(from.volume)) {
      await volumes.run(createVolume(volumes.place, name, size, config));
      return copyBlocks(device, volumes.device(name), { zeroed: false });
    }
    const type = (await blockFileSystem(device)) ?? fileSystemOf(config);
    await this.fileSystem(name, from.volume, { ...config, size: String(size), 'block.filesystem': type }, (target) =>
      this.withFrozen(from.name, (path) => copyTree(path, target)),
    );
  }

  /** The content of a plain volume at one moment, read-only. */
  async withFrozen(name: string, use: (path: string) => Promise<void>): Promise<void> {
    const { volumes, newId } = this.#pool;
    const found = await volumes.find(name);
    // A plain snapshot has no snapshots, and nothing writes to it.
    if (found?.kind === 'snapshot') return this.withMounted(name, use, true);
    const frozen = `${SCRATCH}${newId()}`;
    await volumes.run(snapshotVolume(volumes.place, { from: name, name: frozen, readOnly: false, activate: true }));
    try {
      const type = await blockFileSystem(volumes.device(frozen));
      if (type === 'btrfs') await renewIdentity(volumes.device(frozen), type);
      await this.withMounted(frozen, use, true);
    } finally {
      await volumes.remove([frozen]);
    }
  }

  async #renew(device: string): Promise<void> {
    const type = await blockFileSystem(device);
    if (type !== undefined) await renewIdentity(device, type);
  }
}

async function shrinkTo(device: string, volume: VolumeRef, size: number): Promise<void> {
  try {
    await shrinkExt4(device, size);
  } catch (error) {
    throw errors.badRequest(`Cannot shrink volume "${volume.name}" to ${size} bytes: its content needs more`, error);
  }
}
