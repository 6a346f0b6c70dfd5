import { chmod, mkdir, open, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errors } from '../../../core/errors.ts';
import type { Log } from '../../../core/log.ts';
import { attachLoop } from '../../../host/loop.ts';
import { CommandError } from '../../../host/run.ts';
import { hasDeviceMapper, lvm, lvmIfThere, lvmVersion } from '../../../host/tools/lvm.ts';
import { fullDriverInfo } from '../common/driver-info.ts';
import type { PoolSpec, StorageDriver, StorageDriverInfo, StoragePool } from '../contract.ts';
import { reopenedConfig } from './adopt.ts';
import { bytesIn, createThinPool, placeOf } from './plan.ts';
import { LvmPool } from './pool.ts';
import { groupCommand, parseGroup, parseVolumes, volumesCommand } from './report.ts';
import { checkDevice, checkGroup, loopSize, POOL_TAG, settledConfig, sourceOf, thinPoolAmong } from './source.ts';

export interface LvmHost {
  readonly newId: () => string;
  readonly log: Log;
}

/** Pools of logical volumes. */
export class LvmDriver implements StorageDriver {
  readonly name = 'lvm';
  readonly #host: LvmHost;

  constructor(host: LvmHost) {
    this.#host = host;
  }

  async probe(): Promise<StorageDriverInfo> {
    const version = await lvmVersion();
    const reason =
      version === undefined
        ? 'the LVM tools are not installed (lvm2)'
        : (await hasDeviceMapper())
          ? undefined
          : 'the kernel has no device-mapper';
    return fullDriverInfo({ name: this.name, version: version ?? '', reason, remote: false, optimizedTransfer: false });
  }

  async prepare(spec: PoolSpec): Promise<Record<string, string>> {
    const source = sourceOf(spec);
    const config = settledConfig(spec, source);
    const { group } = placeOf(spec.name, config);
    if (source.kind === 'device') await checkDevice(source.device);
    checkGroup({ ...spec, config }, source, await findGroup(group));
    if (source.kind !== 'loop') return config;
    await mkdir(dirname(spec.loopFile), { recursive: true, mode: 0o711 });
    const size = await loopSize(config, dirname(spec.loopFile));
    return { ...config, size: spec.config['size'] ?? `${size / 1024 ** 3}GiB` };
  }

  reopen(spec: PoolSpec): Promise<Record<string, string>> {
    return reopenedConfig(spec);
  }

  async create(spec: PoolSpec): Promise<void> {
    const source = sourceOf(spec);
    const pool = new LvmPool(spec, this.#host);
    const place = placeOf(spec.name, spec.config);
    try {
      if (source.kind === 'loop') await lvm(['vgcreate', place.group, await makeLoop(source.file, spec)]);
      else if (source.kind === 'device') await lvm(['vgcreate', place.group, source.device]);
      const found = await findGroup(place.group);
      if (place.thinPool !== undefined && thinPoolAmong(spec.config, found?.volumes ?? []) === undefined) {
        const size = source.kind === 'loop' ? undefined : bytesIn(spec.config, 'size');
        await lvm(createThinPool(place, spec.config, size));
      }
      await lvm(['vgchange', '--addtag', POOL_TAG, place.group]);
      await pool.mount();
    } catch (error) {
      await pool.destroy();
      if (!(error instanceof CommandError)) throw error;
      throw errors.badRequest(`Cannot make the volume group "${place.group}": ${error.stderr.trim()}`, error);
    }
  }

  open(spec: PoolSpec): StoragePool {
    return new LvmPool(spec, this.#host);
  }
}

async function findGroup(name: string) {
  const text = await lvmIfThere(groupCommand(name));
  const group = text === undefined ? undefined : parseGroup(text);
  if (group === undefined) return undefined;
  return { group, volumes: parseVolumes(await lvm(volumesCommand(name))) };
}

async function makeLoop(path: string, spec: PoolSpec): Promise<string> {
  await rm(path, { force: true });
  const file = await open(path, 'wx', 0o600);
  await file.truncate(bytesIn(spec.config, 'size') ?? 0);
  await file.close();
  await chmod(path, 0o600);
  return attachLoop(path);
}
