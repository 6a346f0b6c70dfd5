import { mkdir, readdir, realpath } from 'node:fs/promises';
import { release } from 'node:os';
import { join, sep } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { looksLikePool } from '../common/recovery.ts';
import type { PoolSpec, StorageDriver, StorageDriverInfo, StoragePool } from '../contract.ts';
import { type DirHost, DirPool } from './pool.ts';

/** Folders of the host that may not become a pool. */
const FORBIDDEN = [
  '/',
  '/bin',
  '/boot',
  '/dev',
  '/etc',
  '/lib',
  '/proc',
  '/root',
  '/run',
  '/sbin',
  '/sys',
  '/usr',
  '/var',
];

/** Pools in a folder of any file system. */
export class DirDriver implements StorageDriver {
  readonly name = 'dir';
  readonly #host: DirHost;

  constructor(host: DirHost) {
    this.#host = host;
  }

  async probe(): Promise<StorageDriverInfo> {
    return {
      name: this.name,
      version: release().split('.').slice(0, 2).join('.'),
      supported: true,
      remote: false,
      capabilities: {
        cheapClone: true,
        cheapSnapshot: true,
        quota: false,
        shrink: false,
        blockVolumes: true,
        optimizedTransfer: false,
      },
    };
  }

  async prepare(spec: PoolSpec): Promise<Record<string, string>> {
    const source = spec.config['source'] ?? '';
    if (source === '') return { ...spec.config, source: spec.path };
    if (source === spec.path) return { ...spec.config };
    if (!source.startsWith('/') || !(await pathExists(source)))
      throw errors.badRequest(`Source path '${source}' doesn't exist`);
    const real = await realpath(source);
    if (FORBIDDEN.includes(real) || spec.path.startsWith(real + sep)) {
      throw errors.badRequest(`Source path '${source}' cannot hold a storage pool`);
    }
    const content = (await readdir(real)).filter((name) => name !== 'lost+found');
    if (content.length > 0) throw errors.badRequest(`Source path '${source}' isn't empty`);
    return { ...spec.config };
  }

  async reopen(spec: PoolSpec): Promise<Record<string, string>> {
    const source = spec.config['source'] ?? '';
    const path = source === '' ? spec.path : source;
    if (!path.startsWith('/') || !(await pathExists(path)))
      throw errors.badRequest(`Source path '${path}' doesn't exist`);
    const real = await realpath(path);
    if (FORBIDDEN.includes(real) || spec.path.startsWith(real + sep) || !(await looksLikePool(real)))
      throw errors.badRequest(`Source path '${path}' holds no storage pool`);
    return { ...spec.config, source: path };
  }

  async create(spec: PoolSpec): Promise<void> {
    const pool = new DirPool(spec, this.#host);
    await mkdir(join(spec.path, '..'), { recursive: true, mode: 0o711 });
    try {
      await pool.mount();
    } catch (error) {
      await pool.destroy();
      throw error;
    }
  }

  open(spec: PoolSpec): StoragePool {
    return new DirPool(spec, this.#host);
  }
}
