import { describe, expect, it } from 'vitest';
import { isKeelsonError } from '../../core/errors.ts';
import { CommandError } from '../run.ts';
import { type CephfsMount, mountCommand } from './cephfs.ts';
import { rbdArguments, unreachable } from './rbd.ts';
import { deviceAmong, storageDaemonArguments } from './rbd-map.ts';

const place = { conf: '/etc/ceph/ceph.conf', user: 'admin', pool: 'lxd' };

describe('mounting a CephFS', () => {
  const mount: CephfsMount = { ...place, fileSystem: 'fs', folder: '/a/b', fscache: false };

  it('by the kernel leaves addresses and the secret to mount.ceph', () => {
    expect(mountCommand('kernel', mount, '/pool')).toEqual([
      ...['mount', '-t', 'ceph', '-o', 'name=admin,conf=/etc/ceph/ceph.conf,mds_namespace=fs,mount_timeout=10'],
      ...['--', ':/a/b', '/pool'],
    ]);
    expect(mountCommand('kernel', { ...mount, fscache: true }, '/pool')[4]).toMatch(/,fsc$/);
  });

  it('by ceph-fuse keeps ACLs, and no file for the pid', () => {
    expect(mountCommand('fuse', mount, '/pool')).toEqual([
      ...['ceph-fuse', '--conf', '/etc/ceph/ceph.conf', '--id', 'admin', '--client_mount_timeout=10'],
      ...['--client_acl_type=posix_acl', '--fuse_default_permissions=false', '--log-to-stderr=false', '--pid_file='],
      ...['--client_fs', 'fs', '-r', '/a/b', '/pool'],
    ]);
  });
});

describe('commands of rbd', () => {
  it('give up a cluster that does not answer, unless they move data', () => {
    const common = ['--conf', '/etc/ceph/ceph.conf', '--id', 'admin', '--client_mount_timeout=10'];
    expect(rbdArguments(place, ['ls'])).toEqual([
      ...common,
      ...['--rados_mon_op_timeout=10', '--rados_osd_op_timeout=10', '--pool', 'lxd', 'ls'],
    ]);
    expect(rbdArguments(place, ['cp', 'a', 'b'], true)).toEqual([...common, '--pool', 'lxd', 'cp', 'a', 'b']);
  });

  it.each([
    [110, 'rbd: listing images failed: (110) Connection timed out', 'does not answer'],
    [1, 'failed to fetch mon config (--no-mon-config to skip)', 'does not answer'],
    [1, 'auth: unable to find a keyring on /etc/ceph/ceph.client.bob.keyring', 'no keyring of the user "admin"'],
    [1, '[errno 2] RADOS object not found (error connecting to the cluster)', 'no keyring of the user "admin"'],
    [13, '[errno 13] RADOS permission denied (error connecting to the cluster)', 'refuses the user "admin"'],
  ])('that end with %i: %s', (code, stderr, told) => {
    const error = unreachable(new CommandError('rbd', [], { code, stderr }), place);
    expect(isKeelsonError(error, 'unavailable') && error.message).toContain(told);
  });

  it('that fail otherwise stay what they are', () => {
    const error = new CommandError('rbd', [], { code: 17, stderr: 'rbd: create error: (17) File exists' });
    expect(unreachable(error, place)).toBe(error);
  });
});

describe('mapped images', () => {
  it('are found in what either client lists, heads only', () => {
    const krbd = [
      { id: '0', pool: 'other', namespace: '', name: 'a', snap: '-', device: '/dev/rbd0' },
      { id: '1', pool: 'lxd', namespace: '', name: 'a', snap: 's', device: '/dev/rbd1' },
      { id: '2', pool: 'lxd', namespace: '', name: 'a', snap: '-', device: '/dev/rbd2' },
    ];
    expect(deviceAmong(krbd, 'lxd', 'a')).toBe('/dev/rbd2');
    const nbd = [{ id: 4711, pool: 'lxd', namespace: '', image: 'a', snap: '-', device: '/dev/nbd0' }];
    expect(deviceAmong(nbd, 'lxd', 'a')).toBe('/dev/nbd0');
    expect(deviceAmong(nbd, 'lxd', 'b')).toBeUndefined();
  });

  it('are shown as files by arguments that no name can break', () => {
    const args = storageDaemonArguments(place, 'container_a,b', { file: '/p/container_a,b', pid: '/p/x.pid' });
    expect(args.slice(0, 3)).toEqual(['--daemonize', '--pidfile', '/p/x.pid']);
    expect(JSON.parse(args[4] ?? '')).toEqual({
      ...{ driver: 'rbd', 'node-name': 'image', pool: 'lxd', image: 'container_a,b', conf: place.conf, user: 'admin' },
      discard: 'unmap',
    });
    expect(JSON.parse(args[6] ?? '')).toMatchObject({ type: 'fuse', mountpoint: '/p/container_a,b', writable: true });
  });
});
