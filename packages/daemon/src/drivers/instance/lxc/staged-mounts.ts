import { chmod, chown, mkdir, open, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cloneMount, unmountTree } from '../../../host/mounts.ts';
import type { MountSpec, StartSpec } from '../contract.ts';
import type { LxcFiles } from './files.ts';

/**
 * Binds the sources of a guest's mounts where its own root may reach them: liblxc opens them as the guest's root, which
 * must not pass through the folders that hold them (a pool's volumes, somebody's home). They stay while the guest runs,
 * for its reboots. Nobody but that root and the host's may pass either.
 */
export async function stageMounts(files: LxcFiles, spec: StartSpec): Promise<MountSpec[]> {
  await unstageMounts(files, spec.key);
  if (spec.mounts.length === 0) return [];
  const folder = files.mountFolder(spec.key);
  await mkdir(dirname(folder), { recursive: true, mode: 0o711 });
  await mkdir(folder, { mode: 0o700 });
  const staged: MountSpec[] = [];
  for (const [index, mount] of spec.mounts.entries()) staged.push(await stage(mount, join(folder, String(index))));
  const base = spec.privileged ? 0 : (spec.idRange?.base ?? 0);
  await chmod(folder, 0o100);
  await chown(folder, base, base);
  return staged;
}

async function stage(mount: MountSpec, target: string): Promise<MountSpec> {
  const source = await stat(mount.source).catch(() => undefined);
  if (source === undefined) return mount; // liblxc decides: it may be optional
  if (source.isDirectory()) await mkdir(target, { mode: 0o700 });
  else await (await open(target, 'wx', 0o600)).close();
  await cloneMount(mount.source, target, { recursive: mount.recursive });
  return { ...mount, source: target, kind: mount.kind ?? (source.isDirectory() ? 'folder' : 'file') };
}

/** Idempotent. Removes mount points only when nothing is mounted on them any more. */
export async function unstageMounts(files: LxcFiles, key: string): Promise<void> {
  const folder = files.mountFolder(key);
  if ((await stat(folder).catch(() => undefined)) === undefined) return;
  await unmountTree(folder);
  for (let index = 0; ; index++) {
    const target = join(folder, String(index));
    const found = await stat(target).catch(() => undefined);
    if (found === undefined) break;
    // Never recursive: what is behind a mount that did not go is somebody's data.
    await (found.isDirectory() ? rmdir(target) : rm(target));
  }
  await rmdir(folder);
}
