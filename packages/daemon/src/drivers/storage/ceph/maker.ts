import { chmod, mkdir, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { removeTree } from '../../../host/files.ts';
import { isMountPoint } from '../../../host/mounts.ts';
import { CommandError } from '../../../host/run.ts';
import { checkForeign } from '../../../host/tools/foreign-fs.ts';
import {
  blockFileSystem,
  copyBlocks,
  growBlockFileSystem,
  makeBlockFileSystem,
  renewIdentity,
  shrinkExt4,
} from '../../../host/tools/block-fs.ts';
import { contentFile } from '../common/volume-names.ts';
import type { VolumeRef } from '../contract.ts';
import { type Config, fileSystemOf, imageArguments, sizeOf } from './config.ts';
import type { CephContext } from './context.ts';
import type { CephMounter } from './mounter.ts';
import { IMAGE_SNAPSHOT, isBlock } from './names.ts';

const MODES = { container: 0o100, 'virtual-machine': 0o100, image: 0o711, custom: 0o711 } as const;

/** Makes RBD images under a scratch name; they get their own when they are complete. */
export class CephMaker {
  readonly #pool: CephContext;
  readonly #mounter: CephMounter;

  constructor(pool: CephContext, mounter: CephMounter) {
    this.#pool = pool;
    this.#mounter = mounter;
  }

  /** A file system that `fill` fills. */
  async fileSystem(image: string, volume: VolumeRef, config: Config, fill?: (path: string) => Promise<void>) {
    await this.#pool.images.create(image, sizeOf(config), this.#arguments());
    const type =
      volume.type === 'image' ? fileSystemOf(this.#pool.config(), 'volume.block.filesystem') : fileSystemOf(config);
    await this.#mounter.withDevice(image, (device) => makeBlockFileSystem(device, type, { zeroed: true }));
    await this.#mounter.withMounted(image, async (path) => {
      await rmdir(join(path, 'lost+found')).catch(() => undefined); // a check makes it again when it needs it
      await chmod(path, MODES[volume.type]);
      await fill?.(path);
    });
    await this.#seal(image, volume);
  }

  /** A device with the disk that `fill` writes into a scratch folder; at least as large as the config says. */
  async disk(image: string, volume: VolumeRef, config: Config, fill?: (path: string) => Promise<void>): Promise<void> {
    const { images, staging } = this.#pool;
    if (fill === undefined) return images.create(image, sizeOf(config), this.#arguments());
    const folder = join(staging, image);
    await mkdir(folder, { mode: 0o700 });
    try {
      await fill(folder);
      const file = join(folder, contentFile(volume));
      const needed = Math.ceil((await stat(file)).size / 512) * 512;
      const asked = volume.type === 'image' ? 0 : sizeOf(config);
      await images.create(image, Math.max(needed, asked), this.#arguments());
      await this.#mounter.withDevice(image, (device) => copyBlocks(file, device, { zeroed: true }));
    } finally {
      await removeTree(folder);
    }
    await this.#seal(image, volume);
  }

  /** A clone of a snapshot, with an identity of its own. */
  async clone(
    from: { readonly image: string; readonly snapshot: string },
    image: string,
    block: boolean,
  ): Promise<void> {
    await this.#pool.images.clone(from, image, this.#arguments());
    if (!block) await this.renew(image);
  }

  /** Gives a copy's file system an identity of its own, where the kernel tells them apart by it. */
  async renew(image: string): Promise<void> {
    await this.#mounter.withDevice(image, async (device) => {
      const type = await blockFileSystem(device);
      if (type !== undefined) await renewIdentity(device, type);
    });
  }

  /** Looks at a file system that another server made, before this host's kernel does, and renews it. @throws bad-request. */
  async takeOver(image: string, volume: VolumeRef): Promise<void> {
    await this.#mounter.withDevice(image, async (device) => {
      const type = await blockFileSystem(device);
      if (type === undefined)
        throw errors.badRequest(`Cannot receive volume "${volume.name}": it holds no file system this server knows`);
      try {
        await checkForeign(device, type);
        await renewIdentity(device, type);
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
        throw errors.badRequest(`Cannot receive volume "${volume.name}": its ${type} file system is broken`, error);
      }
    });
  }

  /** Resizes an image with its file system, which is mounted at `path` if that is a mount point. @throws bad-request. */
  async resize(image: string, volume: VolumeRef, path: string, size: number): Promise<void> {
    const { images, place } = this.#pool;
    const found = await images.find(image);
    if (found === undefined) throw errors.notFound('Storage volume not found');
    const wanted = Math.max(512, Math.ceil(size / 512) * 512);
    if (wanted === found.size) return;
    if (wanted < found.size) return this.#shrink(image, volume, path, wanted);
    const mapper = await this.#pool.mapper();
    if ((await mapper.device(place, image)) === undefined) await images.resize(image, wanted);
    else await mapper.grow(place, image, wanted);
    if (isBlock(volume)) return;
    const mounted = isMountPoint(path) ? path : undefined;
    const grow = async (device: string) => {
      const type = await blockFileSystem(device);
      if (type !== undefined) await growBlockFileSystem(device, type, mounted);
    };
    if (mounted === undefined) await this.#mounter.withDevice(image, grow);
    else await grow(await this.#mounter.map(image));
  }

  async #shrink(image: string, volume: VolumeRef, path: string, size: number): Promise<void> {
    if (isBlock(volume)) throw errors.badRequest('Block volumes cannot be shrunk');
    if (isMountPoint(path))
      throw errors.badRequest(`Cannot shrink volume "${volume.name}" while it is in use: stop what uses it first`);
    await this.#mounter.withDevice(image, async (device) => {
      const type = await blockFileSystem(device);
      if (type !== 'ext4')
        throw errors.badRequest(
          `Cannot shrink volume "${volume.name}": its ${type ?? 'unknown'} file system cannot be shrunk`,
        );
      await shrinkExt4(device, size).catch((error: unknown) => {
        throw errors.badRequest(
          `Cannot shrink volume "${volume.name}" to ${size} bytes: its content needs more`,
          error,
        );
      });
    });
    await this.#pool.images.resize(image, size);
  }

  /** What clones of an image volume stand on. */
  async #seal(image: string, volume: VolumeRef): Promise<void> {
    if (volume.type !== 'image') return;
    await this.#pool.images.snapshot(image, IMAGE_SNAPSHOT);
    await this.#pool.images.protect(image, IMAGE_SNAPSHOT);
  }

  #arguments(): string[] {
    return imageArguments(this.#pool.config());
  }
}
