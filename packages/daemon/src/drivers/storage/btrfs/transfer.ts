import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { createSubvolume } from '../../../host/tools/btrfs.ts';
import { subvolumeInfo } from '../../../host/tools/btrfs-send.ts';
import { setReadOnly, snapshotTree } from '../../../host/tools/btrfs-tree.ts';
import { putBeside } from '../common/beside-files.ts';
import { isSnapshot, snapshotPath, volumeKey, volumePath } from '../common/volume-names.ts';
import type { NativeReceive, NativeSend, NativeTransfer, SnapshotRef, VolumeRef } from '../contract.ts';
import type { BtrfsContext } from './context.ts';
import { BtrfsReceive, snapshotNames } from './receive.ts';
import { BtrfsSend, FROZEN } from './send.ts';

/** `btrfs send` and `btrfs receive`: whole volumes between pools of this kind, later states as differences. */
export class BtrfsTransfer implements NativeTransfer {
  readonly format = 'btrfs';
  readonly #pool: BtrfsContext;

  constructor(pool: BtrfsContext) {
    this.#pool = pool;
  }

  async send(
    source: VolumeRef | SnapshotRef,
    { beside = new Map() }: { readonly beside?: ReadonlyMap<string, string> } = {},
  ): Promise<NativeSend> {
    const { path, staging, newId, queue, trash } = this.#pool;
    const folder = join(staging, newId());
    await queue.run({ exclusive: [volumeKey(source)] }, async () => {
      const frozen = isSnapshot(source) ? snapshotPath(path, source, source.snapshot) : volumePath(path, source);
      if (!(await pathExists(frozen))) throw errors.notFound('Storage volume not found');
      await mkdir(folder, { mode: 0o700 });
      try {
        await snapshotTree(frozen, join(folder, FROZEN));
        if (beside.size > 0) await putBeside(join(folder, FROZEN), beside);
        await setReadOnly(join(folder, FROZEN), true);
      } catch (error) {
        await trash.discard(folder);
        throw error;
      }
    });
    return new BtrfsSend(this.#pool, source, folder);
  }

  /** Who writes to a snapshot in spite of its being read-only changes its transaction, or ends that it was received. */
  async identities(volume: VolumeRef): Promise<ReadonlyMap<string, readonly string[]>> {
    const found = new Map<string, readonly string[]>();
    for (const name of await snapshotNames(this.#pool, volume)) {
      const info = await subvolumeInfo(snapshotPath(this.#pool.path, volume, name));
      const { uuid, receivedUuid, sentAt, changedAt } = info;
      const id = receivedUuid ?? uuid;
      found.set(name, [`${id}:${changedAt}`, ...(receivedUuid === undefined ? [] : [`${id}:${sentAt}`])]);
    }
    return found;
  }

  async receive(target: VolumeRef, { refresh }: { readonly refresh: boolean }): Promise<NativeReceive> {
    const { path, staging, newId } = this.#pool;
    const there = await pathExists(volumePath(path, target));
    if (there && !refresh) throw errors.conflict(`Volume "${target.name}" already exists`);
    if (!there && refresh) throw errors.notFound('Storage volume not found');
    const folder = join(staging, newId());
    await createSubvolume(folder);
    const receive = new BtrfsReceive(this.#pool, target, { folder, refresh });
    try {
      await receive.open();
      return receive;
    } catch (error) {
      await receive[Symbol.asyncDispose]();
      throw error;
    }
  }
}
