import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { type CephCluster, named, startCeph } from '@keelson/testkit';
import { afterAll, beforeAll, describe } from 'vitest';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import { CephDriver } from '../../packages/daemon/src/drivers/storage/ceph/driver.ts';
import { describeStorageDriver } from '../../packages/daemon/src/drivers/storage/storage-conformance.ts';
import { probeRbd } from './rbd.ts';

const probe = await probeRbd();

describe.skipIf(!probe.ok)(named('ceph on a real Ceph', probe), () => {
  let cluster: CephCluster;
  beforeAll(async () => {
    cluster = await startCeph();
  }, 120_000);
  afterAll(() => cluster?.[Symbol.asyncDispose](), 60_000);

  describeStorageDriver('ceph', {
    newDriver: () =>
      new CephDriver({ newId: () => randomUUID().slice(0, 13), log: silentLog, cephFolder: cluster.folder }),
    volumeConfig: { size: '256MiB' },
    spec: (folder) => ({
      name: 'p',
      config: { 'ceph.osd.pg_num': '4', 'volume.size': '256MiB' },
      path: join(folder, 'storage-pools/p'),
      loopFile: join(folder, 'disks/p.img'),
    }),
  });
});
