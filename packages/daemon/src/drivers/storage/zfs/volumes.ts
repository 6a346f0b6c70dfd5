import { chmod, mkdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { removeTree } from '../../../host/files.ts';
import { isMountPoint, unmountAll } from '../../../host/mounts.ts';
import { CommandError } from '../../../host/run.ts';
import { contentSize, copyBlocks, syncMounted } from '../../../host/tools/block-fs.ts';
import { zfsPipe } from '../../../host/tools/zfs.ts';
import { removePoint } from '../common/mount-points.ts';
import {
  contentFile,
  isSnapshot,
  snapshotPath,
  snapshotsPath,
  volumeKey,
  volumePath,
  volumeOf,
} from '../common/volume-names.ts';
import type { CopyOptions, RootOptions, SnapshotRef, VolumeOptions, VolumeRef, Volumes } from '../contract.ts';
import type { ZfsContext } from './context.ts';
import { ZfsMounter, zvolDevice } from './mounter.ts';
import { datasetOf, deletedName, isBlock, READ_ONLY, snapshotName, STAGING, userSnapshot } from './names.ts';
import {
  clone,
  copyMode,
  createFileSystem,
  createZvol,
  destroy,
  isTrue,
  receive,
  rename,
  restorePlan,
  rollback,
  send,
  setQuota,
  setVolumeSize,
  sizeOf,
  snapshot as takeSnapshot,
} from './plan.ts';

type Config = Readonly<Record<string, string>>;

const MODES = { container: 0o100, 'virtual-machine': 0o100, image: 0o711, custom: 0o711 } as const;

/** Every volume is a dataset, every snapshot one of ZFS, laid out as LXD does; instance roots lie in `rootfs/`. */
export class ZfsVolumes implements Volumes {
  readonly #pool: ZfsContext;
  readonly mounter: ZfsMounter;

  constructor(pool: ZfsContext) {
    this.#pool = pool;
    this.mounter = new ZfsMounter(pool);
  }

  create(volume: VolumeRef, { size, config = {} }: { readonly size?: number } & VolumeOptions): Promise<void> {
    const sized = size === undefined ? config : { ...config, size: String(size) };
    return this.#make(volume, (scratch) =>
      isBlock(volume)
        ? this.#run(createZvol(scratch, sizeOf(sized), sized))
        : this.#fileSystem(scratch, volume, sized, () => Promise.resolve()),
    );
  }

  createFilled(
    volume: VolumeRef,
    fill: (path: string) => Promise<void>,
    { config = {} }: VolumeOptions = {},
  ): Promise<void> {
    return this.#make(volume, (scratch) =>
      isBlock(volume) ? this.#disk(scratch, volume, config, fill) : this.#fileSystem(scratch, volume, config, fill),
    );
  }

  /** `fill` undefined: empty. */
  createRoot(volume: VolumeRef, options: RootOptions, fill?: (path: string) => Promise<void>): Promise<void> {
    if (isBlock(volume))
      return fill === undefined ? this.create(volume, options) : this.createFilled(volume, fill, options);
    return this.createFilled(
      volume,
      async (path) => {
        await mkdir(join(path, 'rootfs'), { mode: 0o755 });
        await fill?.(join(path, 'rootfs'));
      },
      options,
    );
  }

  createFromImage(volume: VolumeRef, image: VolumeRef): Promise<void> {
    return this.#exclusive([volume], async () => {
      await this.#assertAbsent(volume);
      const { root } = this.#pool.datasets;
      const origin = `${datasetOf(root, image)}@${READ_ONLY}`;
      await this.#run(clone(origin, datasetOf(root, volume), isBlock(volume) ? 'zvol' : 'file system'));
    }, [image]);
  }

  copy(source: VolumeRef | SnapshotRef, target: VolumeRef, options: CopyOptions = {}): Promise<void> {
    const shared = source.type === 'image' ? [source] : [];
    const exclusive = source.type === 'image' ? [target] : [source, target];
    return this.#exclusive(
      exclusive,
      async () => {
        await this.#assertAbsent(target);
        const { datasets, path, newId } = this.#pool;
        const volume = volumeOf(source);
        if (!(await datasets.exists(datasetOf(datasets.root, source))))
          throw errors.notFound('Storage volume not found');
        if (isMountPoint(volumePath(path, volume))) await syncMounted(volumePath(path, volume));
        const from = datasetOf(datasets.root, volume);
        const head = isSnapshot(source) ? datasetOf(datasets.root, source) : `${from}@copy-${newId()}`;
        if (!isSnapshot(source)) await this.#run(takeSnapshot(head));
        try {
          await this.#copyHead({ from, head, target }, options);
        } finally {
          if (!isSnapshot(source)) await this.#dropUnlessCloned(head);
        }
      },
      shared,
    );
  }

  rename(volume: VolumeRef, newName: string): Promise<void> {
    const target = { ...volume, name: newName };
    return this.#exclusive([volume, target], async () => {
      const { datasets, path } = this.#pool;
      const [from, to] = [datasetOf(datasets.root, volume), datasetOf(datasets.root, target)];
      const [there, taken] = [await datasets.exists(from), await datasets.exists(to)];
      if (!there && taken) return;
      if (taken) throw exists(newName);
      await this.#unmountAll(volume);
      await this.#run(rename(from, to));
      await removePoint(volumePath(path, volume));
    });
  }

  delete(volume: VolumeRef): Promise<void> {
    return this.#exclusive([volume], async () => {
      const { datasets, path, newId } = this.#pool;
      await this.#unmountAll(volume);
      await datasets.delete(datasetOf(datasets.root, volume), newId());
      await removePoint(volumePath(path, volume));
      if (volume.type !== 'image') await removePoint(snapshotsPath(path, volume));
    });
  }

  exists(volume: VolumeRef): Promise<boolean> {
    return this.#pool.datasets.exists(datasetOf(this.#pool.datasets.root, volume));
  }

  mount(volume: VolumeRef): Promise<string> {
    return this.exclusively(volume, () => this.mounter.mount(volume));
  }

  unmount(volume: VolumeRef): Promise<void> {
    return this.exclusively(volume, () => this.mounter.unmount(volume));
  }

  async usage(volume: VolumeRef): Promise<number | undefined> {
    const { datasets } = this.#pool;
    const used = await datasets.property(datasetOf(datasets.root, volume), 'used');
    return used === undefined ? undefined : Number(used);
  }

  /** @throws bad-request when the volume cannot have this size. */
  limit(volume: VolumeRef, size: number | undefined, { config = {} }: VolumeOptions = {}): Promise<void> {
    return this.exclusively(volume, async () => {
      const dataset = datasetOf(this.#pool.datasets.root, volume);
      if (isBlock(volume)) return size === undefined ? undefined : this.#resizeDevice(dataset, size);
      try {
        for (const command of setQuota(dataset, size, config)) await this.#run(command);
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
        throw errors.badRequest(
          `Cannot limit volume "${volume.name}" to ${size ?? 'no'} bytes: ${reasonOf(error)}`,
          error,
        );
      }
    });
  }

  exclusively<T>(volume: VolumeRef, work: () => Promise<T>): Promise<T> {
    return this.#exclusive([volume], work);
  }

  createSnapshot(volume: VolumeRef, name: string): Promise<void> {
    return this.exclusively(volume, async () => {
      const { datasets, path } = this.#pool;
      const dataset = datasetOf(datasets.root, { ...volume, snapshot: name });
      if (await datasets.exists(dataset)) throw errors.conflict(`Snapshot "${name}" already exists`);
      if (isMountPoint(volumePath(path, volume))) await syncMounted(volumePath(path, volume));
      await this.#run(takeSnapshot(dataset));
    });
  }

  async listSnapshots(volume: VolumeRef): Promise<readonly string[]> {
    const { datasets } = this.#pool;
    const names = await datasets.snapshots(datasetOf(datasets.root, volume));
    return names
      .map(userSnapshot)
      .filter((name) => name !== undefined)
      .sort();
  }

  renameSnapshot(volume: VolumeRef, name: string, newName: string): Promise<void> {
    return this.exclusively(volume, async () => {
      const { datasets } = this.#pool;
      const [from, to] = [name, newName].map((one) => datasetOf(datasets.root, { ...volume, snapshot: one })) as [
        string,
        string,
      ];
      const [there, taken] = [await datasets.exists(from), await datasets.exists(to)];
      if (!there && taken) return;
      if (taken) throw errors.conflict(`Snapshot "${newName}" already exists`);
      await this.mounter.unmountSnapshot({ ...volume, snapshot: name });
      await this.#run(rename(from, to));
    });
  }

  /** One that a copy stands on stays under a hidden name until the copy goes. */
  deleteSnapshot(volume: VolumeRef, name: string): Promise<void> {
    return this.exclusively(volume, async () => {
      const { datasets, path, newId } = this.#pool;
      const reference = { ...volume, snapshot: name };
      const dataset = datasetOf(datasets.root, reference);
      if (!(await datasets.exists(dataset))) return;
      await this.mounter.unmountSnapshot(reference);
      await removePoint(snapshotPath(path, volume, name));
      const cloned = (await datasets.all()).some(({ origin }) => origin === dataset);
      await this.#run(
        cloned ? rename(dataset, `${datasetOf(datasets.root, volume)}@deleted-${newId()}`) : destroy(dataset),
      );
    });
  }

  restore(volume: VolumeRef, name: string, { config = {} }: VolumeOptions = {}): Promise<void> {
    return this.exclusively(volume, async () => {
      const { datasets } = this.#pool;
      const wanted = datasetOf(datasets.root, { ...volume, snapshot: name });
      const snapshots = await datasets.snapshots(datasetOf(datasets.root, volume));
      if (!snapshots.includes(wanted)) throw errors.notFound('Storage volume snapshot not found');
      const removeLater = isTrue(config['zfs.remove_snapshots']);
      const later = restorePlan(snapshots, wanted, { name, removeLater });
      await this.#unmountAll(volume);
      for (const one of [...later].reverse()) await this.#run(destroy(one));
      await this.#run(rollback(wanted));
    });
  }

  /** A file system that `fill` fills. */
  async #fileSystem(
    dataset: string,
    volume: VolumeRef,
    config: Config,
    fill: (path: string) => Promise<void>,
  ): Promise<void> {
    await this.#run(createFileSystem(dataset, config));
    const path = join(this.#pool.staging, dataset.slice(dataset.lastIndexOf('/') + 1));
    try {
      await this.mounter.mountDataset(dataset, path);
      await chmod(path, MODES[volume.type]);
      await fill(path);
    } finally {
      await unmountAll(path);
      await rm(path, { recursive: true, force: true });
    }
  }

  /** A zvol with the disk that `fill` writes into a scratch folder; at least as large as the config says. */
  async #disk(
    dataset: string,
    volume: VolumeRef,
    config: Config,
    fill: (path: string) => Promise<void>,
  ): Promise<void> {
    const folder = join(this.#pool.staging, dataset.slice(dataset.lastIndexOf('/') + 1));
    await mkdir(folder, { mode: 0o700 });
    try {
      await fill(folder);
      const file = join(folder, contentFile(volume));
      const asked = volume.type === 'image' ? 0 : sizeOf(config);
      await this.#run(createZvol(dataset, Math.max((await stat(file)).size, asked), config));
      await copyBlocks(file, await zvolDevice(dataset), { zeroed: true });
    } finally {
      await removeTree(folder);
    }
  }

  async #copyHead(
    { from, head, target }: { readonly from: string; readonly head: string; readonly target: VolumeRef },
    options: CopyOptions,
  ): Promise<void> {
    const { datasets, config } = this.#pool;
    const to = datasetOf(datasets.root, target);
    const kind = isBlock(target) ? 'zvol' : 'file system';
    const names = options.snapshots ?? [];
    const mode = copyMode(config());
    if (mode === 'clone' && names.length === 0) {
      await this.#run(clone(head, to, kind));
      return;
    }
    await this.#publish(to, async (scratch) => {
      const image = mode === 'rebase' ? await this.#imageOf(from) : undefined;
      const last = head.slice(head.indexOf('@'));
      let parent = image;
      for (const part of [...names.map((name) => `@${snapshotName(name)}`), last]) {
        const origin = parent !== undefined && parent === image ? { origin: image } : {};
        await zfsPipe(send(from + part, parent), receive(scratch, origin), options.signal);
        parent = from + part;
      }
      await this.#run(destroy(scratch + last));
    });
  }

  /** Snapshot of the image that a volume was cloned from. */
  async #imageOf(dataset: string): Promise<string | undefined> {
    const { datasets } = this.#pool;
    const origin = await datasets.property(dataset, 'origin');
    return origin !== undefined && /\/images\/[^/]+@readonly$/.test(origin) ? origin : undefined;
  }

  async #dropUnlessCloned(name: string): Promise<void> {
    const cloned = (await this.#pool.datasets.all()).some(({ origin }) => origin === name);
    if (!cloned) await this.#run(destroy(name));
  }

  /** @throws bad-request when the device would lose its end. */
  async #resizeDevice(dataset: string, size: number): Promise<void> {
    const current = await contentSize(await zvolDevice(dataset));
    if (size < current) throw errors.badRequest('Block volumes cannot be shrunk');
    if (size > current) await this.#run(setVolumeSize(dataset, size));
  }

  async #unmountAll(volume: VolumeRef): Promise<void> {
    await this.mounter.unmount(volume);
    if (volume.type === 'image') return;
    for (const snapshot of await this.listSnapshots(volume)) {
      if (isMountPoint(snapshotPath(this.#pool.path, volume, snapshot)) || isBlock(volume))
        await this.mounter.unmountSnapshot({ ...volume, snapshot });
    }
  }

  async #make(volume: VolumeRef, make: (scratch: string) => Promise<void>): Promise<void> {
    volumePath(this.#pool.path, volume); // refuses a name that is no path component
    await this.exclusively(volume, async () => {
      await this.#assertAbsent(volume);
      const { datasets, newId } = this.#pool;
      const target = datasetOf(datasets.root, volume);
      const kept = deletedName(datasets.root, target, newId());
      // An image that was deleted while roots stood on it is as good as new.
      if (volume.type === 'image' && (await datasets.exists(`${kept}@${READ_ONLY}`))) {
        await this.#run(rename(kept, target));
        return;
      }
      await this.#publish(target, async (scratch) => {
        await make(scratch);
        if (volume.type === 'image') await this.#run(takeSnapshot(`${scratch}@${READ_ONLY}`));
      });
    });
  }

  /** Calls `make` with a scratch dataset, then gives it the name `target`; removes it when that fails. */
  async #publish(target: string, make: (scratch: string) => Promise<void>): Promise<void> {
    const { datasets, newId } = this.#pool;
    const scratch = `${datasets.root}/${STAGING}/${newId()}`;
    try {
      await make(scratch);
      await this.#run(rename(scratch, target));
    } catch (error) {
      await datasets.delete(scratch, newId());
      throw error;
    }
  }

  async #assertAbsent(volume: VolumeRef): Promise<void> {
    if (await this.exists(volume)) throw exists(volume.name);
  }

  async #run(command: readonly string[]): Promise<void> {
    await this.#pool.datasets.run(command);
  }

  #exclusive<T>(volumes: readonly VolumeRef[], work: () => Promise<T>, shared: readonly VolumeRef[] = []): Promise<T> {
    return this.#pool.queue.run({ exclusive: volumes.map(volumeKey), shared: shared.map(volumeKey) }, work);
  }
}

function exists(name: string): Error {
  return errors.conflict(`Volume "${name}" already exists`);
}

/** ZFS' words without the command's name. */
function reasonOf({ stderr }: CommandError): string {
  return (
    stderr
      .trim()
      .split('\n')
      .at(-1)
      ?.replace(/^cannot [^:]*: /, '') ?? ''
  );
}
