import { errors } from '../../../core/errors.ts';
import { isMountPoint } from '../../../host/mounts.ts';
import { putBeside } from '../common/beside-files.ts';
import { isSnapshot, volumeKey, volumeOf, volumePath } from '../common/volume-names.ts';
import type { NativeReceive, NativeSend, NativeTransfer, SnapshotRef, VolumeOptions, VolumeRef } from '../contract.ts';
import type { CephContext } from './context.ts';
import { sentSnapshot, snapshotName } from './names.ts';
import { CephReceive } from './receive.ts';
import { CephSend } from './send.ts';
import type { CephVolumes } from './volumes.ts';

/** `rbd export-diff` and `rbd import-diff`: whole images between pools of this kind, later states as differences. */
export class CephTransfer implements NativeTransfer {
  readonly format = 'rbd';
  readonly backups = false;
  readonly #pool: CephContext;
  readonly #volumes: CephVolumes;

  constructor(pool: CephContext, volumes: CephVolumes) {
    this.#pool = pool;
    this.#volumes = volumes;
  }

  async send(
    source: VolumeRef | SnapshotRef,
    { beside = new Map() }: { readonly beside?: ReadonlyMap<string, string> } = {},
  ): Promise<NativeSend> {
    const { images, queue, newId } = this.#pool;
    const volume = volumeOf(source);
    const image = this.#volumes.mounter.image(volume);
    return queue.run({ exclusive: [volumeKey(volume)] }, async () => {
      await this.#volumes.journal.mend(volume);
      if ((await images.find(image)) === undefined) throw errors.notFound('Storage volume not found');
      if (isSnapshot(source)) {
        const snapshot = snapshotName(source.snapshot);
        if (!(await images.snapshots(image)).some(({ name }) => name === snapshot))
          throw errors.notFound('Storage volume snapshot not found');
        return new CephSend(this.#pool, { image, snapshot, nameless: true });
      }
      if (beside.size > 0) await this.#putBeside(volume, beside);
      await this.#volumes.sync(volume);
      const snapshot = sentSnapshot(newId());
      const frozen = await this.#volumes.frozen.take(image, snapshot);
      return new CephSend(this.#pool, { image, snapshot, nameless: false }, frozen);
    });
  }

  async receive(
    target: VolumeRef,
    { refresh, config = {} }: { readonly refresh: boolean } & VolumeOptions,
  ): Promise<NativeReceive> {
    const there = await this.#volumes.exists(target);
    if (there && !refresh) throw errors.conflict(`Volume "${target.name}" already exists`);
    if (!there && refresh) throw errors.notFound('Storage volume not found');
    return new CephReceive(this.#pool, this.#volumes, { target, refresh, config });
  }

  /** As LXD does, in the volume itself. */
  async #putBeside(volume: VolumeRef, files: ReadonlyMap<string, string>): Promise<void> {
    const { mounter } = this.#volumes;
    const mounted = isMountPoint(volumePath(this.#pool.path, volume));
    const path = await mounter.mount(volume);
    try {
      await putBeside(path, files);
    } finally {
      if (!mounted) await mounter.unmount(volume);
    }
  }
}
