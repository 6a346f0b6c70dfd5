import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CephCluster, removeLeftovers } from '@keelson/testkit';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import type { PoolSpec, StoragePool, VolumeRef } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { CephDriver } from '../../packages/daemon/src/drivers/storage/ceph/driver.ts';

export function cephDriver(cluster: CephCluster): CephDriver {
  return new CephDriver({ newId: () => randomUUID().slice(0, 13), log: silentLog, cephFolder: cluster.folder });
}

export function disk(name: string): VolumeRef {
  return { type: 'custom', name, contentType: 'block' };
}

/** A pool without a daemon, in an OSD pool of its name. */
export class CephTestPool implements AsyncDisposable {
  readonly pool: StoragePool;
  readonly #cluster: CephCluster;
  readonly #folder: string;
  readonly #spec: PoolSpec;

  private constructor(cluster: CephCluster, folder: string, spec: PoolSpec) {
    this.#cluster = cluster;
    this.#folder = folder;
    this.#spec = spec;
    this.pool = cephDriver(cluster).open(spec);
  }

  static async make(
    cluster: CephCluster,
    name: string,
    config: Readonly<Record<string, string>> = {},
  ): Promise<CephTestPool> {
    const folder = mkdtempSync(join(tmpdir(), 'ceph-pool-'));
    const path = join(folder, 'storage-pools', name);
    const asked = { name, config: { 'ceph.osd.pg_num': '4', ...config }, path, loopFile: join(folder, 'x') };
    const spec = { ...asked, config: await cephDriver(cluster).prepare(asked) };
    await cephDriver(cluster).create(spec);
    const made = new CephTestPool(cluster, folder, spec);
    await made.pool.mount();
    return made;
  }

  get path(): string {
    return this.#spec.path;
  }

  /** The pool as a daemon has it that starts after a crash. */
  async again(): Promise<StoragePool> {
    const pool = cephDriver(this.#cluster).open(this.#spec);
    await pool.mount();
    await pool.recover([]);
    return pool;
  }

  /** Output of `rbd` in the OSD pool. */
  rbd(...args: readonly string[]): Promise<string> {
    return this.#cluster.rbd('--pool', this.#spec.name, ...args);
  }

  /** Names of all images but the one that marks the OSD pool as taken. */
  async images(): Promise<string[]> {
    const names: string[] = JSON.parse(await this.rbd('ls', '--format', 'json'));
    return names.filter((name) => name !== `lxd_${this.#spec.name}`).sort();
  }

  async snapshots(image: string): Promise<string[]> {
    const found: { name: string }[] = JSON.parse(await this.rbd('snap', 'ls', '--format', 'json', '--image', image));
    return found.map(({ name }) => name);
  }

  async id(image: string): Promise<string> {
    return JSON.parse(await this.rbd('info', '--format', 'json', '--image', image)).id;
  }

  staged(): string[] {
    return readdirSync(join(this.path, 'staging')).sort();
  }

  /** A note as a daemon leaves it that is killed. */
  note(name: string, content: object): void {
    writeFileSync(join(this.path, 'staging', name), JSON.stringify(content));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.pool.destroy();
    } finally {
      await removeLeftovers(this.#folder);
      rmSync(this.#folder, { recursive: true, force: true });
    }
  }
}
