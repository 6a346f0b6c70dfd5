import { chmod, lstat, mkdir, readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { copyFile, copyTree } from '../../../host/files.ts';
import type { UserNamespaces } from '../../../host/idmap.ts';
import { cloneMount, unmountAll } from '../../../host/mounts.ts';
import { renameExchange } from '../../../host/syscalls.ts';
import { createSubvolume, limitReferenced, referencedLimit } from '../../../host/tools/btrfs.ts';
import { nestedSubvolumes, setReadOnly } from '../../../host/tools/btrfs-tree.ts';
import { rootIn } from '../common/plain-content.ts';
import { snapshotPath, volumeKey, volumePath } from '../common/volume-names.ts';
import type { AdoptOptions, IdRange, VolumeRef } from '../contract.ts';
import { type BtrfsContext, discardSubvolume, MODES } from './context.ts';

/**
 * Gives the files of a root and its snapshots guest ids where another server left host ids. Each state becomes a new
 * subvolume that shares all blocks with the old one and takes its place in one step; one that is done stays as it is.
 */
export async function adoptRoot(
  pool: BtrfsContext,
  namespaces: UserNamespaces,
  volume: VolumeRef,
  { idRange, snapshots }: AdoptOptions,
): Promise<void> {
  if (volume.type !== 'container') return;
  await pool.queue.run({ exclusive: [volumeKey(volume)] }, async () => {
    for (const [name, range] of snapshots) {
      if (range !== undefined)
        await unshift(pool, namespaces, snapshotPath(pool.path, volume, name), { ...range, readOnly: true });
    }
    if (idRange !== undefined)
      await unshift(pool, namespaces, volumePath(pool.path, volume), { ...idRange, readOnly: false });
  });
}

async function unshift(
  pool: BtrfsContext,
  namespaces: UserNamespaces,
  path: string,
  { base, size, readOnly }: IdRange & { readonly readOnly: boolean },
): Promise<void> {
  const { uid } = await lstat(await rootIn(path));
  if (uid < base || uid >= base + size) return;
  if ((await nestedSubvolumes(path)).length > 0)
    throw errors.badRequest(
      'Its files carry ids of the host it comes from and it holds subvolumes of its own: start it on a host whose kernel has id-mapped mounts',
    );
  const { staging, newId } = pool;
  const [fresh, view] = [join(staging, newId()), join(staging, newId())];
  await createSubvolume(fresh);
  try {
    for (const name of await readdir(path))
      if (name !== 'rootfs') await copyBeside(join(path, name), join(fresh, name));
    await mkdir(view, { mode: 0o700 });
    await cloneMount(join(path, 'rootfs'), view, { usernsFd: await namespaces.get({ from: base, to: 0, size }) });
    try {
      await copyTree(view, join(fresh, 'rootfs'), { reflink: 'auto' });
    } finally {
      await unmountAll(view, { lazy: true });
      await rmdir(view).catch(() => undefined);
    }
    await chmod(fresh, MODES.container);
    const limit = await referencedLimit(path);
    if (limit !== undefined) await limitReferenced(fresh, limit);
    if (readOnly) await setReadOnly(path, false);
    await renameExchange(fresh, path);
    if (readOnly) await setReadOnly(path, true);
  } finally {
    await discardSubvolume(pool, fresh);
  }
}

/** What stands beside the root: plain files and folders of the server that made it. */
async function copyBeside(source: string, target: string): Promise<void> {
  const found = await lstat(source);
  if (found.isDirectory()) await copyTree(source, target);
  else if (found.isFile()) await copyFile(source, target);
}
