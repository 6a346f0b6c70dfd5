import { join } from 'node:path';
import { describeStorageDriver } from '../../packages/daemon/src/drivers/storage/storage-conformance.ts';
import { driverNamed } from './drivers.ts';

describeStorageDriver('dir', {
  newDriver: () => driverNamed('dir'),
  spec: (folder) => ({
    name: 'p',
    config: {},
    path: join(folder, 'storage-pools/p'),
    loopFile: join(folder, 'disks/p.img'),
  }),
  layout: 'own',
});
