import { describe, expect, it } from 'vitest';
import { mountCommand } from '../../../host/tools/cephfs.ts';
import { sourceOf } from './source.ts';

const from = (config: Record<string, string>) =>
  sourceOf({ name: 'p', config, path: '/p', loopFile: '/p.img' }, '/etc/ceph');

describe('source of a cephfs pool', () => {
  it('is a file system and a folder in it', () => {
    expect(from({ source: 'fs/a//b/', 'cephfs.user.name': 'lxd', 'cephfs.cluster_name': 'far' })).toEqual({
      ...{ conf: '/etc/ceph/far.conf', user: 'lxd', fileSystem: 'fs', folder: '/a/b', fscache: false },
    });
  });

  it.each([
    ...[
      '',
      '/',
      '/a',
      '-o/a',
      '--conf=x/a',
      '--admin-socket=',
      'fs,secret=x',
      'fs/a,noshare',
      'fs:/a',
      'fs/a b',
      'f s',
    ],
    ...['fs/../a', 'fs/./a', 'fs/.snap/x', 'fs/a\nb', 'fs/a\0b', '.'],
  ])('is not %j', (source) => {
    expect(() => from({ source })).toThrow(/Invalid source|Missing required source/);
  });

  it.each([
    ['cephfs.user.name', 'admin,secret=AQ=='],
    ['cephfs.user.name', '-x'],
    ['cephfs.cluster_name', 'a,b'],
    ['cephfs.cluster_name', '../../tmp/x'],
  ])('has no %s of %j', (key, value) => {
    expect(() => from({ source: 'fs', [key]: value })).toThrow(/Invalid name of a Ceph/);
  });

  it('leads to no mount option and no argument of its own', () => {
    const mount = from({ source: 'fs/-o,rw'.replace(',', '=') });
    expect(mountCommand('kernel', mount, '/p').slice(-3)).toEqual(['--', ':/-o=rw', '/p']);
    expect(mountCommand('fuse', mount, '/p').slice(-5)).toEqual(['--client_fs', 'fs', '-r', '/-o=rw', '/p']);
  });
});
