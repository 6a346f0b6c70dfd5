import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { World } from './testing/world.ts';

describe('copy', () => {
  it('takes config, profiles and snapshots along, without volatile keys of the source', async () => {
    await using world = await World.open();
    await world.create('c1', { config: { 'user.x': '1' } });
    await world.ok(world.service.snapshots.create('default', 'c1', { name: 's0' }));
    await world.create('c2', { source: { type: 'copy', source: 'c1' }, config: { 'user.y': '2' } });
    const config = world.config('c2');
    expect(config).toMatchObject({ 'user.x': '1', 'user.y': '2', 'volatile.apply_template': 'copy' });
    expect(config['volatile.uuid']).not.toBe(world.config('c1')['volatile.uuid']);
    expect(config['volatile.eth0.hwaddr']).not.toBe(world.config('c1')['volatile.eth0.hwaddr']);
    expect(world.service.snapshots.list('default', 'c2').urls()).toEqual(['/1.0/instances/c2/snapshots/s0']);
    await world.create('c3', { source: { type: 'copy', source: 'c1/s0' } });
    expect(world.service.snapshots.list('default', 'c3').urls()).toEqual([]);
  });
});

describe('refresh of a copy', () => {
  it('takes root and snapshots of the source over and keeps the config', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.create('c2', { source: { type: 'copy', source: 'c1' }, config: { 'user.own': '1' } });
    await world.ok(world.service.snapshots.create('default', 'c2', { name: 'old' }));
    await world.ok(world.service.snapshots.create('default', 'c1', { name: 'new' }));
    await world.create('c2', { source: { type: 'copy', source: 'c1', refresh: true } });
    expect(world.service.snapshots.list('default', 'c2').urls()).toEqual(['/1.0/instances/c2/snapshots/new']);
    expect([...world.storage.roots.entries()].toSorted(([a], [b]) => a.localeCompare(b))).toEqual([
      ['pool/default/c1', ['new']],
      ['pool/default/c2', ['new']],
    ]);
    expect(world.config('c2')['user.own']).toBe('1');
    await world.start('c2');
    expect(
      await world.fails(
        world.service.creator.create('default', { name: 'c2', source: { type: 'copy', source: 'c1', refresh: true } }),
      ),
    ).toBe('Cannot refresh a running instance');
  });
});

describe('copy between projects', () => {
  it('shows nothing of a project the caller may not use', async () => {
    await using world = await World.open();
    await world.create('c1');
    const body = { name: 'c2', source: { type: 'copy', source: 'c1', project: 'default' } };
    await expect(
      world.service.creator.create('other', body, { mayUseProject: (project) => project === 'other' }),
    ).rejects.toThrow('Instance not found');
  });
});

describe('backups', () => {
  it('are made, listed, renamed and deleted', async () => {
    await using world = await World.open();
    await world.create('c1');
    const { backups } = world.service;
    const made = await world.ok(backups.create('default', 'c1', {}));
    expect(made.resources?.['backups']).toEqual(['/1.0/backups/backup0']);
    expect(backups.get('default', 'c1', 'backup0')).toMatchObject({
      name: 'backup0',
      instance_only: false,
      expires_at: '0001-01-01T00:00:00Z',
    });
    expect(await world.fails(backups.create('default', 'c1', { name: 'backup0' }))).toBe(
      'Create backup: Backup "c1/backup0" already exists',
    );
    await world.ok(backups.rename('default', 'c1', { from: 'backup0', to: 'b1' }));
    expect(backups.list('default', 'c1').urls()).toEqual(['/1.0/instances/c1/backups/b1']);
    await world.ok(backups.delete('default', 'c1', 'b1'));
    expect(() => backups.get('default', 'c1', 'b1')).toThrow('Instance backup not found');
    expect(() => backups.create('default', 'c1', { name: 'a/b' })).toThrow('Backup names may not contain slashes');
    expect(() => backups.create('default', 'c1', { compression_algorithm: 'sh -c' })).toThrow(
      'Invalid compression algorithm',
    );
  });

  it('come back as instances that pass the same checks as a request', async () => {
    await using world = await World.open();
    await world.create('c1', { config: { 'user.x': '1' } });
    await world.ok(world.service.backups.create('default', 'c1', {}));
    const { body } = await world.service.backups.export('default', 'c1', 'backup0');
    const text = Buffer.concat(await body.toArray()).toString();
    const upload = (content: string, name: string) => ({
      body: Readable.from([Buffer.from(content)]),
      name,
      pool: 'other',
      signal: new AbortController().signal,
    });
    await world.ok(world.service.backupImport.start('default', upload(text, 'c2')));
    expect(world.config('c2')).toMatchObject({ 'user.x': '1', 'image.os': 'Tiny' });
    expect([...world.storage.roots.keys()]).toContain('other/default/c2');
    expect(
      await world.fails(world.service.backupImport.start('default', upload(text.replaceAll('user.x', 'bogus'), 'c3'))),
    ).toContain('Unknown configuration key: bogus');
    await expect(world.service.backupImport.start('default', upload('[]', 'c4'))).rejects.toThrow(
      'The index of the backup lacks "index"',
    );
    await expect(world.service.backupImport.start('default', upload(text, '../c5'))).rejects.toThrow(
      'reserved for snapshots',
    );
  });
});

describe('delete, rename and move', () => {
  it('deletes everything of an instance', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.ok(world.service.snapshots.create('default', 'c1', {}));
    await world.start('c1');
    expect(() => world.service.lifecycle.delete('default', 'c1')).toThrow('Instance is running');
    await world.ok(world.service.runner.change('default', 'c1', { action: 'stop', force: true }));
    await world.ok(world.service.lifecycle.delete('default', 'c1'));
    const { instances, snapshots, metadata } = world.collections;
    expect(instances.list().length + snapshots.list().length + metadata.list().length).toBe(0);
    expect(() => world.service.reader.get('default', 'c1')).toThrow('Instance not found');
  });

  it('keeps a protected instance', async () => {
    await using world = await World.open();
    await world.create('c1', { config: { 'security.protection.delete': 'true' } });
    expect(await world.fails(world.service.lifecycle.delete('default', 'c1'))).toContain('protected');
  });

  it('renames with snapshots', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.ok(world.service.snapshots.create('default', 'c1', { name: 's0' }));
    await world.ok(world.service.lifecycle.post('default', 'c1', { name: 'c2' }));
    expect(world.service.snapshots.list('default', 'c2').urls()).toEqual(['/1.0/instances/c2/snapshots/s0']);
    expect([...world.storage.roots]).toEqual([['pool/default/c2', ['s0']]]);
    expect(() => world.service.lifecycle.post('default', 'c2', { name: 'c2' })).toThrow('Name "c2" already in use');
  });

  it('moves to another pool', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.ok(world.service.lifecycle.post('default', 'c1', { name: 'c1', pool: 'other', migration: true }));
    expect([...world.storage.roots.keys()]).toEqual(['other/default/c1']);
    expect(world.service.reader.get('default', 'c1').instance.expanded_devices?.['root']?.['pool']).toBe('other');
  });
});
