import { mkdir, open, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { CommandError } from '../../../host/run.ts';
import { kernelHasZfs, zfs, zfsIfThere, zfsVersion } from '../../../host/tools/zfs.ts';
import type { PoolSpec, StorageDriver, StorageDriverInfo, StoragePool } from '../contract.ts';
import { reopenedConfig } from './adopt.ts';
import { bytesIn, listDatasets, parseDatasets } from './plan.ts';
import { MADE, type ZfsHost, ZfsPool } from './pool.ts';
import { mountsMapIds } from './shifted.ts';
import { checkDevice, loopSize, rootDataset, settledConfig, sourceOf } from './source.ts';

const OLDEST = [2, 1] as const;

/** Pools of datasets. */
export class ZfsDriver implements StorageDriver {
  readonly name = 'zfs';
  readonly #host: ZfsHost;

  constructor(host: ZfsHost) {
    this.#host = host;
  }

  async probe(): Promise<StorageDriverInfo> {
    const version = await zfsVersion();
    const reason = unsupported(version, await kernelHasZfs());
    return {
      name: this.name,
      version: version ?? '',
      supported: reason === undefined,
      ...(reason === undefined ? {} : { reason }),
      remote: false,
      capabilities: {
        cheapClone: true,
        cheapSnapshot: true,
        quota: true,
        shrink: true,
        blockVolumes: true,
        optimizedTransfer: await (this.#host.mapsIds ?? mountsMapIds)(),
      },
    };
  }

  async prepare(spec: PoolSpec): Promise<Record<string, string>> {
    const source = sourceOf(spec);
    const config = settledConfig(spec, source);
    const root = rootDataset({ ...spec, config });
    const found = await zfsIfThere(listDatasets(root));
    if (source.kind === 'dataset') {
      if (found === undefined && !root.includes('/')) throw errors.badRequest(`The zpool "${root}" does not exist`);
      if (found !== undefined && parseDatasets(found).length > 1)
        throw errors.badRequest(
          `Provided ZFS pool (or dataset) isn't empty, run "sudo zfs list -r ${root}" to see existing entries`,
        );
      return config;
    }
    if (found !== undefined) throw errors.badRequest(`A zpool called "${root}" already exists`);
    if (source.kind === 'device') {
      await checkDevice(source.device);
      return config;
    }
    await mkdir(dirname(spec.loopFile), { recursive: true, mode: 0o711 });
    const size = await loopSize(spec, dirname(spec.loopFile));
    return { ...config, size: spec.config['size'] ?? `${size / 1024 ** 3}GiB` };
  }

  reopen(spec: PoolSpec): Promise<Record<string, string>> {
    return reopenedConfig(spec);
  }

  async create(spec: PoolSpec): Promise<void> {
    const source = sourceOf(spec);
    const root = rootDataset(spec);
    const pool = new ZfsPool(spec, this.#host);
    let begun = false;
    try {
      if (source.kind === 'dataset') {
        begun = true;
        if ((await zfsIfThere(listDatasets(root))) === undefined)
          await zfs(['zfs', 'create', '-o', 'mountpoint=legacy', '-o', `${MADE}=true`, root]);
      } else {
        const device = source.kind === 'loop' ? await makeFile(source.file, spec) : source.device;
        await zfs(['zpool', 'create', '-m', 'none', '-O', 'compression=on', root, device]);
        begun = true;
        await zfs(['zpool', 'set', 'autotrim=on', root]).catch((error: unknown) =>
          this.#host.log.warn('freed blocks are not given back', { pool: root, error }),
        );
      }
      await pool.mount();
    } catch (error) {
      // A zpool of that name that is not ours must not be touched.
      if (begun) await pool.destroy();
      else if (source.kind === 'loop') await rm(source.file, { force: true });
      if (!(error instanceof CommandError)) throw error;
      throw errors.badRequest(`Cannot make the zpool or dataset "${root}": ${error.stderr.trim()}`, error);
    }
  }

  open(spec: PoolSpec): StoragePool {
    return new ZfsPool(spec, this.#host);
  }
}

/** Why this host cannot run the driver. */
export function unsupported(version: string | undefined, kernel: boolean): string | undefined {
  if (!kernel) return 'the kernel has no zfs module';
  if (version === undefined) return 'the zfs tools are not installed (zfsutils-linux)';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return undefined;
  return `zfs ${version} is too old: ${OLDEST.join('.')} or newer is needed`;
}

async function makeFile(path: string, spec: PoolSpec): Promise<string> {
  await rm(path, { force: true });
  const file = await open(path, 'wx', 0o600);
  await file.truncate(bytesIn(spec.config, 'size') ?? 0);
  await file.close();
  return path;
}
