import { mkdir, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { renameNoReplace } from '../../../host/syscalls.ts';
import { setReceived, subvolumeInfo } from '../../../host/tools/btrfs-send.ts';
import { nestedSubvolumes, setReadOnly, snapshotSubvolume, snapshotTree } from '../../../host/tools/btrfs-tree.ts';
import type { VolumeRef } from '../contract.ts';
import { snapshotPath, snapshotsPath, volumePath } from '../common/volume-names.ts';
import { type BtrfsContext, discardSubvolume } from './context.ts';

const SUFFIX = '.publish';

/** A change that a crash may cut: the snapshots it adds stay only when the volume became `head`. */
interface Publication {
  readonly volume: VolumeRef;
  /** Id of the subvolume that becomes the volume. */
  readonly head: string;
  readonly snapshots: readonly string[];
}

export interface NewContent {
  /** Subvolume of the staging folder that becomes the volume. */
  readonly head: string;
  /** Subvolumes that become the snapshots, by name; they stay where they are. */
  readonly snapshots: ReadonlyMap<string, string>;
}

/** Makes snapshots appear and calls `place`, which gives the head its name; both or, after a crash and `recover`, neither. */
export async function publish(
  pool: BtrfsContext,
  volume: VolumeRef,
  content: NewContent & { readonly place: () => Promise<void> },
): Promise<void> {
  for (const name of content.snapshots.keys()) {
    if (await pathExists(snapshotPath(pool.path, volume, name)))
      throw errors.conflict(`Snapshot "${name}" already exists`);
  }
  if (content.snapshots.size === 0) return content.place();
  const note = join(pool.staging, `${pool.newId()}${SUFFIX}`);
  const { uuid } = await subvolumeInfo(content.head);
  const publication: Publication = { volume, head: uuid, snapshots: [...content.snapshots.keys()] };
  await writeFile(note, JSON.stringify(publication), { flush: true });
  try {
    for (const [name, source] of content.snapshots) {
      await placeSnapshot(pool, source, snapshotPath(pool.path, volume, name), { copied: true });
    }
    await content.place();
  } catch (error) {
    await takeBack(pool, publication);
    throw error;
  } finally {
    await rm(note, { force: true });
  }
}

/**
 * Read-only copy of a subvolume, with those inside, under its final name. What was received keeps the id it was
 * received from: later streams build on it. So does `copied`, which is read-only itself: it passes for received from it.
 */
export async function placeSnapshot(
  pool: BtrfsContext,
  source: string,
  target: string,
  { copied = false }: { readonly copied?: boolean } = {},
): Promise<void> {
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  const { uuid, receivedUuid, sentAt, changedAt } = await subvolumeInfo(source);
  const plain = receivedUuid !== undefined || !copied;
  if (plain && (await nestedSubvolumes(source)).length === 0)
    return snapshotSubvolume(source, target, { readOnly: true });
  const fresh = join(pool.staging, pool.newId());
  try {
    await snapshotTree(source, fresh);
    if (receivedUuid !== undefined) await setReceived(fresh, receivedUuid, sentAt);
    else if (copied) await setReceived(fresh, uuid, changedAt);
    await renameNoReplace(fresh, target); // a read-only one could not be moved
    await setReadOnly(target, true);
  } finally {
    await discardSubvolume(pool, fresh);
  }
}

/** Takes back what an earlier run did not finish. */
export async function recoverPublications(pool: BtrfsContext): Promise<void> {
  for (const name of await readdir(pool.staging)) {
    if (!name.endsWith(SUFFIX)) continue;
    const note = join(pool.staging, name);
    const publication = parse(await readFile(note, 'utf8'));
    if (publication !== undefined) await takeBack(pool, publication);
    await rm(note, { force: true });
  }
}

async function takeBack(pool: BtrfsContext, { volume, head, snapshots }: Publication): Promise<void> {
  const path = volumePath(pool.path, volume);
  if ((await pathExists(path)) && (await subvolumeInfo(path)).uuid === head) return;
  for (const name of snapshots) await discardSubvolume(pool, snapshotPath(pool.path, volume, name));
  await rmdir(snapshotsPath(pool.path, volume)).catch(() => undefined); // others are in it
}

/** Undefined when the crash cut the note itself: then nothing was done yet; and for what names no snapshots. */
function parse(text: string): Publication | undefined {
  try {
    const found = JSON.parse(text) as Publication;
    // Who made the pool may have written anything here: only names of volumes are acted on.
    for (const name of found.snapshots) snapshotPath('/', found.volume, name);
    return found;
  } catch {
    return undefined;
  }
}
