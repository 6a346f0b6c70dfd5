import { randomUUID } from 'node:crypto';
import type { Log } from '../../core/log.ts';
import { UserNamespaces } from '../../host/idmap.ts';
import type { StorageDriver } from './contract.ts';
import { BtrfsDriver } from './btrfs/driver.ts';
import { CephDriver } from './ceph/driver.ts';
import { CephfsDriver } from './cephfs/driver.ts';
import { DirDriver } from './dir/driver.ts';
import { LvmDriver } from './lvm/driver.ts';
import { ZfsDriver } from './zfs/driver.ts';

export interface StorageDriversOptions {
  /** Where the configurations of Ceph clusters are; default `/etc/ceph`. */
  readonly cephFolder?: string | undefined;
}

/** Every storage driver, by name; a driver that this host cannot run says so in `probe`. */
export class StorageDrivers implements AsyncDisposable {
  readonly #namespaces = new UserNamespaces();
  readonly #drivers: ReadonlyMap<string, StorageDriver>;

  constructor(log: Log, { cephFolder = '/etc/ceph' }: StorageDriversOptions = {}) {
    const host = { namespaces: this.#namespaces, newId: () => randomUUID().replaceAll('-', '').slice(0, 16), log };
    const drivers: StorageDriver[] = [
      new DirDriver(host),
      new BtrfsDriver(host),
      new ZfsDriver(host),
      new LvmDriver(host),
      new CephDriver({ ...host, cephFolder }),
      new CephfsDriver({ ...host, cephFolder }),
    ];
    this.#drivers = new Map(drivers.map((driver) => [driver.name, driver]));
  }

  get(name: string): StorageDriver | undefined {
    return this.#drivers.get(name);
  }

  all(): readonly StorageDriver[] {
    return [...this.#drivers.values()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#namespaces[Symbol.asyncDispose]();
  }
}
