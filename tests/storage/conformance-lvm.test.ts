import { join } from 'node:path';
import { named } from '@keelson/testkit';
import { describe } from 'vitest';
import { describeStorageDriver } from '../../packages/daemon/src/drivers/storage/storage-conformance.ts';
import { driverNamed } from './drivers.ts';

const { supported, reason = '' } = await driverNamed('lvm').probe();

/** Each kind of pool and its volumes; KEELSON_LVM picks some by name. */
const KINDS: Readonly<
  Record<
    string,
    { readonly pool: Record<string, string>; readonly volume: Record<string, string>; readonly many?: number }
  >
> = {
  ext4: { many: 40, pool: { size: '2GiB' }, volume: { size: '64MiB' } },
  xfs: { pool: { size: '2GiB' }, volume: { size: '320MiB', 'block.filesystem': 'xfs' } },
  btrfs: { pool: { size: '2GiB' }, volume: { size: '128MiB', 'block.filesystem': 'btrfs' } },
  plain: { pool: { size: '2GiB', 'lvm.use_thinpool': 'false' }, volume: { size: '16MiB' } },
};
const wanted = process.env['KEELSON_LVM']?.split(',') ?? Object.keys(KINDS);

describe.skipIf(!supported)(named('lvm', { ok: supported, reason }), () => {
  for (const [kind, { pool, volume, many = 12 }] of Object.entries(KINDS).filter(([name]) => wanted.includes(name))) {
    describeStorageDriver(`lvm (${kind})`, {
      newDriver: () => driverNamed('lvm'),
      spec: (folder) => ({
        name: `keelson-test-${kind}`,
        config: pool,
        path: join(folder, 'storage-pools/p'),
        loopFile: join(folder, 'disks/p.img'),
      }),
      volumeConfig: volume,
      many,
    });
  }
});
