import { join } from 'node:path';
import { describeStorageDriver } from '../../packages/daemon/src/drivers/storage/storage-conformance.ts';
import { driverNamed } from './drivers.ts';

describeStorageDriver('btrfs', {
  newDriver: () => driverNamed('btrfs'),
  spec: (folder) => ({
    name: 'p',
    config: { size: '512MiB' },
    path: join(folder, 'storage-pools/p'),
    loopFile: join(folder, 'disks/p.img'),
  }),
});
