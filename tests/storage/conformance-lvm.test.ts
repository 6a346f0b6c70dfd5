import { join } from 'node:path';
import { describe, it } from 'vitest';
import { describeStorageDriver } from '../../packages/daemon/src/drivers/storage/storage-conformance.ts';
import { driverNamed } from './drivers.ts';

const { supported, reason } = await driverNamed('lvm').probe();

if (supported) {
  for (const fileSystem of (process.env['KEELSON_LVM_FILE_SYSTEMS'] ?? 'ext4,xfs,btrfs').split(','))
    describeStorageDriver(`lvm (thin, ${fileSystem})`, {
      newDriver: () => driverNamed('lvm'),
      spec: (folder) => ({
        name: `keelson-thin-${fileSystem}`,
        config: { size: '2GiB', 'volume.size': '512MiB', 'volume.block.filesystem': fileSystem },
        path: join(folder, 'storage-pools/p'),
        loopFile: join(folder, 'disks/p.img'),
      }),
    });
} else describe('storage driver lvm', () => it.skip(`is not run: ${reason ?? ''}`, () => undefined));
