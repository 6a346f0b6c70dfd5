import { join } from 'node:path';
import type { ConformanceTarget } from '../../packages/daemon/src/drivers/storage/conformance/fixtures.ts';
import { describeStorageDriver } from '../../packages/daemon/src/drivers/storage/storage-conformance.ts';
import { describeNativeTransfer } from '../../packages/daemon/src/drivers/storage/conformance/native-transfer.ts';
import { driverNamed } from './drivers.ts';

const target: ConformanceTarget = {
  newDriver: () => driverNamed('btrfs'),
  spec: (folder) => ({
    name: 'p',
    config: { size: '512MiB' },
    path: join(folder, 'storage-pools/p'),
    loopFile: join(folder, 'disks/p.img'),
  }),
};

describeStorageDriver('btrfs', target);
describeNativeTransfer('btrfs', target);
