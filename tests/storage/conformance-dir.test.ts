import { join } from 'node:path';
import { afterAll } from 'vitest';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import { StorageDrivers } from '../../packages/daemon/src/drivers/storage/registry.ts';
import { describeStorageDriver } from '../../packages/daemon/src/drivers/storage/storage-conformance.ts';

const made: StorageDrivers[] = [];
afterAll(async () => {
  for (const drivers of made) await drivers[Symbol.asyncDispose]();
});

describeStorageDriver('dir', {
  newDriver: () => {
    const drivers = new StorageDrivers(silentLog);
    made.push(drivers);
    const driver = drivers.get('dir');
    if (driver === undefined) throw new Error('no dir driver');
    return driver;
  },
  spec: (folder) => ({
    name: 'p',
    config: {},
    path: join(folder, 'storage-pools/p'),
    loopFile: join(folder, 'disks/p.img'),
  }),
});
