import { chmod, mkdir, open, readdir, readFile, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { CommandError } from '../../../host/run.ts';
import { btrfsVersion, createSubvolume, isSubvolume, makeFileSystem } from '../../../host/tools/btrfs.ts';
import { looksLikePool } from '../common/recovery.ts';
import type { PoolSpec, StorageDriver, StorageDriverInfo, StoragePool } from '../contract.ts';
import { type BtrfsHost, BtrfsPool } from './pool.ts';
import { checkDevice, checkPath, loopSize, sizeIn, sourceOf } from './source.ts';

/** Pools of subvolumes. */
export class BtrfsDriver implements StorageDriver {
  readonly name = 'btrfs';
  readonly #host: BtrfsHost;

  constructor(host: BtrfsHost) {
    this.#host = host;
  }

  async probe(): Promise<StorageDriverInfo> {
    const version = await btrfsVersion();
    const fileSystems = await readFile('/proc/filesystems', 'utf8').catch(() => '');
    const kernel = /\bbtrfs$/m.test(fileSystems);
    const reason =
      version === undefined ? 'the btrfs tools are not installed (btrfs-progs)' : 'the kernel has no btrfs';
    return {
      name: this.name,
      version: version ?? '',
      supported: version !== undefined && kernel,
      ...(version === undefined || !kernel ? { reason } : {}),
      remote: false,
      capabilities: {
        cheapClone: true,
        cheapSnapshot: true,
        quota: true,
        shrink: true,
        blockVolumes: true,
        optimizedTransfer: true,
      },
    };
  }

  async prepare(spec: PoolSpec): Promise<Record<string, string>> {
    const source = await sourceOf(spec);
    if (source.kind === 'loop') {
      if (!source.own) throw errors.badRequest('Custom loop file locations are not supported');
      await mkdir(dirname(spec.loopFile), { recursive: true, mode: 0o711 });
      const size = await loopSize(spec, dirname(spec.loopFile));
      return { ...spec.config, source: spec.loopFile, size: spec.config['size'] ?? `${size / 1024 ** 3}GiB` };
    }
    if ((spec.config['size'] ?? '') !== '')
      throw errors.badRequest('Cannot specify size when using an existing source');
    if (source.kind === 'device') {
      await checkDevice(source.device);
      return { ...spec.config, 'volatile.initial_source': source.device };
    }
    await checkPath(source.path, spec);
    if (await pathExists(source.path)) {
      if (!(await isSubvolume(source.path)))
        throw errors.badRequest(`Requested btrfs subvolume '${source.path}' isn't a subvolume`);
      if ((await readdir(source.path)).length > 0)
        throw errors.badRequest(`Requested btrfs subvolume '${source.path}' isn't empty`);
    }
    return { ...spec.config };
  }

  async reopen(spec: PoolSpec): Promise<Record<string, string>> {
    const source = await sourceOf(spec);
    if (source.kind === 'path') {
      if (!(await pathExists(source.path)) || !(await looksLikePool(source.path)))
        throw errors.badRequest(`Source path '${source.path}' holds no storage pool`);
      return { ...spec.config };
    }
    if (source.kind === 'device') return { ...spec.config };
    const found = await stat(source.file).catch(() => undefined);
    if (found?.isFile() !== true) throw errors.badRequest(`Loop file "${source.file}" doesn't exist`);
    return { ...spec.config, source: source.file, size: spec.config['size'] ?? `${found.size}B` };
  }

  async create(spec: PoolSpec): Promise<void> {
    const source = await sourceOf(spec);
    const pool = new BtrfsPool(spec, this.#host);
    try {
      if (source.kind === 'loop') await makeLoopFile(source.file, spec);
      else if (source.kind === 'device') await format(source.device, spec.name);
      else if (!(await pathExists(source.path))) await createSubvolume(source.path);
      await pool.mount();
    } catch (error) {
      await pool.destroy();
      throw error;
    }
  }

  open(spec: PoolSpec): StoragePool {
    return new BtrfsPool(spec, this.#host);
  }
}

async function makeLoopFile(path: string, spec: PoolSpec): Promise<void> {
  await rm(path, { force: true });
  const file = await open(path, 'wx', 0o600);
  await file.truncate(sizeIn(spec.config['size'] ?? ''));
  await file.close();
  await chmod(path, 0o600);
  await format(path, spec.name);
}

/** Refuses what holds a file system already: mkfs says which. */
async function format(target: string, label: string): Promise<void> {
  try {
    await makeFileSystem(target, label);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    throw errors.badRequest(`Cannot make a btrfs file system on "${target}": ${error.stderr.trim()}`, error);
  }
}
