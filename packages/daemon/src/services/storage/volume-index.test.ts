import { describe, expect, it } from 'vitest';
import type { StorageVolumeRecord, StorageVolumeSnapshotRecord } from '../../state/records/storage.ts';
import { parseIndex, renderIndex } from './volume-index.ts';

const volume: StorageVolumeRecord = {
  pool: 'p',
  project: 'default',
  type: 'custom',
  name: 'v',
  contentType: 'filesystem',
  description: 'text',
  config: { 'user.a': 'yes', size: '1GiB' },
  createdAt: '2026-01-01T00:00:00Z',
};
const snapshot: StorageVolumeSnapshotRecord = {
  ...volume,
  volume: 'v',
  name: 's0',
  description: 'first',
  expiresAt: '2030-01-01T00:00:00.000Z',
  createdAt: '2026-01-02T00:00:00.000Z',
};

/** As LXD 5.0.2 writes it. */
const LXD = `name: v1
backend: dir
pool: st-b
snapshots:
- snap0
optimized: false
optimized_header: false
type: custom
config:
  volume:
    config:
      snapshots.schedule: '@daily'
    description: ""
    name: v1
    type: custom
    used_by: []
    location: none
    content_type: filesystem
    project: default
    created_at: 0001-01-01T00:00:00Z
  volume_snapshots:
  - description: ""
    expires_at: 2026-11-23T04:42:31.709335992Z
    name: snap0
    config:
      size: 1GB
    content_type: filesystem
    created_at: 0001-01-01T00:00:00Z
`;

describe('index.yaml of a volume backup', () => {
  it('comes back as it was written', () => {
    expect(parseIndex(renderIndex(volume, 'dir', [snapshot]))).toEqual({
      name: 'v',
      description: 'text',
      contentType: 'filesystem',
      config: volume.config,
      snapshots: [
        {
          name: 's0',
          description: 'first',
          expiresAt: snapshot.expiresAt,
          createdAt: snapshot.createdAt,
          config: volume.config,
        },
      ],
    });
  });

  it('is read as LXD writes it', () => {
    const index = parseIndex(LXD);
    expect(index).toMatchObject({ name: 'v1', config: { 'snapshots.schedule': '@daily' } });
    expect(index.snapshots).toEqual([
      {
        name: 'snap0',
        description: '',
        expiresAt: '2026-11-23T04:42:31.709Z',
        createdAt: undefined,
        config: { size: '1GB' },
      },
    ]);
  });

  it.each([
    ['', '"index.yaml" must be an object'],
    ['[1]', '"index.yaml" must be an object'],
    ['a: [', 'not YAML'],
    ['name: x', '"config" must be an object'],
    ['config: {volume: {name: {}}}', '"name" must be a text'],
    ['config: {volume: {name: x, config: {a: 1}}}', '"config.volume.config.a" must be a text'],
    ['config: {volume: {name: x, content_type: evil}}', 'Invalid volume content type'],
    ['type: container\nconfig: {volume: {name: x}}', 'not one of a custom volume'],
    ['optimized: true\nbackend: 1\nconfig: {volume: {name: x}}', 'backend'],
    ['snapshots: [{}]\nconfig: {volume: {name: x}}', '"snapshots" must be a text'],
    ['a: &a [x]\nb: *a\nconfig: {volume: {name: x}}', 'not YAML'],
  ])('refuses %j', (text, message) => {
    expect(() => parseIndex(text)).toThrow(message);
  });
});
