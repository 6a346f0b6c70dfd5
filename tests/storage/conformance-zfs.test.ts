import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { named } from '@keelson/testkit';
import { describe } from 'vitest';
import type { ConformanceTarget } from '../../packages/daemon/src/drivers/storage/conformance/fixtures.ts';
import { describeStorageDriver } from '../../packages/daemon/src/drivers/storage/storage-conformance.ts';
import { describeNativeTransfer } from '../../packages/daemon/src/drivers/storage/conformance/native-transfer.ts';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import { ZfsDriver } from '../../packages/daemon/src/drivers/storage/zfs/driver.ts';
import { driverNamed } from './drivers.ts';

const { supported, reason = '', capabilities } = await driverNamed('zfs').probe();
let made = 0;

const target: ConformanceTarget = {
  newDriver: () => driverNamed('zfs'),
  spec: (folder) => ({
    name: `keelson-test-${process.pid}-${made++}`,
    config: { size: '512MiB' },
    path: join(folder, 'storage-pools/p'),
    loopFile: join(folder, 'disks/p.img'),
  }),
  restores: 'newest',
};

describe.skipIf(!supported)(named('zfs', { ok: supported, reason }), () => {
  describeStorageDriver('zfs', target);
  describeStorageDriver('zfs (owners on disk)', {
    ...target,
    newDriver: () =>
      new ZfsDriver({ newId: () => randomUUID().slice(0, 13), log: silentLog, mapsIds: () => Promise.resolve(false) }),
  });
  describe.skipIf(!capabilities.optimizedTransfer)('with mounts that map ids, since 2.2', () => {
    describeNativeTransfer('zfs', target);
  });
});
