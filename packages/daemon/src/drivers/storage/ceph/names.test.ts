import { describe, expect, it } from 'vitest';
import { imageArguments, placeOf, sizeOf } from './config.ts';
import {
  imageName,
  isOwnImage,
  isPassing,
  scratchName,
  serverMark,
  snapshotName,
  userSnapshot,
  viewName,
} from './names.ts';

describe('names of RBD images', () => {
  const fingerprint = 'f'.repeat(64);

  it.each([
    [{ type: 'container', name: 'c1', contentType: 'filesystem' }, 'container_c1'],
    [{ type: 'container', name: 'proj_c1', contentType: 'filesystem' }, 'container_proj_c1'],
    [{ type: 'virtual-machine', name: 'v1', contentType: 'block' }, 'virtual-machine_v1.block'],
    [{ type: 'image', name: fingerprint, contentType: 'filesystem' }, `image_${fingerprint}_ext4`],
    [{ type: 'image', name: fingerprint, contentType: 'block' }, `image_${fingerprint}_ext4.block`],
    [{ type: 'custom', name: 'default_v', contentType: 'filesystem' }, 'custom_default_v'],
    [{ type: 'custom', name: 'default_v', contentType: 'block' }, 'custom_default_v.block'],
    [{ type: 'custom', name: 'default_v', contentType: 'iso' }, 'custom_default_v.iso'],
  ] as const)('%j', (volume, name) => {
    expect(imageName(volume, 'ext4')).toBe(name);
  });

  it.each(['', '.', '..', 'a/b', 'a@b'])('are not made of %j', (name) => {
    const volume = { type: 'custom', name, contentType: 'filesystem' } as const;
    expect(() => imageName(volume, 'ext4')).toThrow(`Invalid volume name "${name}"`);
  });

  it('tell snapshots of users from the others', () => {
    expect(userSnapshot(snapshotName('s0'))).toBe('s0');
    expect([userSnapshot('readonly'), userSnapshot('zombie_snapshot_x')]).toEqual([undefined, undefined]);
    expect(() => snapshotName('a@b')).toThrow('Invalid snapshot name "a@b"');
    const snapshot = { type: 'container', name: 'c1', contentType: 'filesystem', snapshot: 's0' } as const;
    expect(viewName('', snapshot, 'ext4')).toBe('view_container_c1_s0');
  });
});

describe('images that go with the daemon', () => {
  const snapshot = { type: 'custom', name: 'v', contentType: 'block', snapshot: 's0' } as const;

  it('are told from those of other servers in the OSD pool', () => {
    const marks = ['', serverMark('a1'), serverMark('b-2')];
    for (const mark of marks) {
      const made = [scratchName(mark, '7f'), viewName(mark, snapshot, 'ext4')];
      for (const image of made) {
        expect(isOwnImage(image), image).toBe(true);
        expect(marks.filter((one) => isPassing(one, image))).toEqual([mark]);
      }
    }
    for (const image of ['custom_new_x', 'image_view', 'zombie_new_x']) expect(isPassing('', image)).toBe(false);
    expect(['news_x', 'new-_x', 'lxd_p', 'precious'].filter(isOwnImage)).toEqual([]);
  });
});

describe('config of a ceph pool', () => {
  const spec = (config: Record<string, string>) => ({ name: 'p', config, path: '/x', loopFile: '/y' });

  it('names the place', () => {
    expect(placeOf(spec({}), '/etc/ceph')).toEqual({ conf: '/etc/ceph/ceph.conf', user: 'admin', pool: 'p' });
    const config = { 'ceph.cluster_name': 'far', 'ceph.user.name': 'lxd', 'ceph.osd.pool_name': 'o' };
    expect(placeOf(spec(config), '/c')).toEqual({ conf: '/c/far.conf', user: 'lxd', pool: 'o' });
    expect(() => placeOf(spec({ 'ceph.osd.pool_name': '-x' }), '/c')).toThrow('ceph.osd.pool_name');
    expect(() => placeOf(spec({ 'ceph.cluster_name': '../x' }), '/c')).toThrow('Invalid name of a Ceph cluster');
  });

  const bent = ['-x', '--conf=/tmp/x', 'a/b', 'a@b', 'a b', 'a,b', '..', 'a\nb', 'a\0b', 'ä'];

  it.each([
    ['ceph.osd.pool_name', bent],
    ['source', bent],
    ['ceph.cluster_name', ['../x', 'a/b', '.a', 'a b', 'a,b', 'a\nb', '..']],
    ['ceph.user.name', bent.filter((name) => !['a@b', '..'].includes(name))],
  ])('takes nothing as %s that is more than a name', (key, values) => {
    for (const value of values) expect(() => placeOf(spec({ [key]: value }), '/c'), value).toThrow(/Invalid/);
  });

  it('gives images known features and a data pool only', () => {
    expect(imageArguments({ 'ceph.rbd.features': 'layering, exclusive-lock,' })).toEqual([
      ...['--image-feature', 'layering', '--image-feature', 'exclusive-lock'],
    ]);
    for (const feature of ['--log-file=/etc/cron.d/x', '-c', 'layering --conf=/x', 'unknown'])
      expect(() => imageArguments({ 'ceph.rbd.features': feature }), feature).toThrow(
        `Invalid value for option "ceph.rbd.features": RBD has no feature "${feature}"`,
      );
    expect(imageArguments({ 'ceph.osd.data_pool_name': 'data' }).slice(-2)).toEqual(['--data-pool', 'data']);
    for (const pool of bent)
      expect(() => imageArguments({ 'ceph.osd.data_pool_name': pool }), pool).toThrow('ceph.osd.data_pool_name');
  });

  it('gives volumes a size', () => {
    expect([sizeOf({}), sizeOf({ size: '1GiB' }), sizeOf({ size: '0' })]).toEqual([
      10 * 1024 ** 3,
      1024 ** 3,
      10 * 1024 ** 3,
    ]);
    expect(() => sizeOf({ size: 'x' })).toThrow('Invalid value for option "size"');
  });
});
