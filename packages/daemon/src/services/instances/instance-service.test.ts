import { describe, expect, it } from 'vitest';
import { errors } from '../../core/errors.ts';
import { World } from './testing/world.ts';

describe('create', () => {
  it('makes record and root of an image', async () => {
    await using world = await World.open();
    await world.create('c1', { config: { 'user.x': '1' } });
    const { instance } = world.service.reader.get('default', 'c1');
    expect(instance).toMatchObject({
      name: 'c1',
      status: 'Stopped',
      status_code: 102,
      profiles: ['default'],
      type: 'container',
    });
    expect(instance.config).toMatchObject({
      'image.os': 'Tiny',
      'user.x': '1',
      'volatile.apply_template': 'create',
      'volatile.base_image': 'f'.repeat(64),
      'volatile.eth0.name': 'eth0',
      'volatile.idmap.base': '0',
      'volatile.last_state.idmap': '[]',
    });
    expect(instance.config['volatile.eth0.hwaddr']).toMatch(/^00:16:3e(:[0-9a-f]{2}){3}$/);
    expect(instance.expanded_devices).toEqual({
      eth0: { network: 'net', type: 'nic' },
      root: { path: '/', pool: 'pool', type: 'disk' },
    });
    expect([...world.storage.roots.keys()]).toEqual(['pool/default/c1']);
    expect(world.actions()).toEqual(['instance-created']);
  });

  it('chooses a name when none is given', async () => {
    await using world = await World.open();
    const record = await world.ok(world.service.creator.create('default', { source: { type: 'none' } }));
    expect(record.resources?.['instances']).toEqual(['/1.0/instances/able-anchor']);
  });

  it('leaves nothing behind when the root cannot be made', async () => {
    await using world = await World.open();
    world.storage.failCreate = new Error('disk full');
    expect(await world.fails(world.service.creator.create('default', { name: 'c1', source: { type: 'none' } }))).toBe(
      'disk full',
    );
    expect(world.collections.instances.list()).toEqual([]);
    expect(world.storage.roots.size).toBe(0);
    await world.intents.recover();
    world.storage.failCreate = undefined;
    await world.create('c1');
  });

  it.each([
    [{ name: 'c_1' }, 'Invalid instance name: Name can only contain alphanumeric and hyphen characters'],
    [{ name: 'a/b' }, 'The character "/" is reserved for snapshots'],
    [{ name: 'c1', source: {} }, 'Unknown source type '],
    [{ name: 'c1', source: { type: 'foo' } }, 'Unknown source type foo'],
    [
      { name: 'c1', source: { type: 'image' } },
      'Must specify one of alias, fingerprint or properties for init from image',
    ],
    [{ name: 'c1', source: { type: 'copy' } }, 'Must specify a source instance'],
    [
      { name: 'c1', source: { type: 'copy', source: 'x' } },
      'Failed to fetch instance "x" in project "default": Instance not found',
    ],
    [{ name: 'c1', source: { type: 'none' }, architecture: 'foo' }, "Architecture isn't supported: foo"],
    [{ name: 'c1', source: { type: 'none' }, profiles: ['nope'] }, 'Requested profile "nope" doesn\'t exist'],
  ])('refuses %o at once', async (body, message) => {
    await using world = await World.open();
    await expect(world.service.creator.create('default', body)).rejects.toThrow(message);
  });

  it.each([
    [{ config: { foo: 'x' } }, 'Failed creating instance record: Unknown configuration key: foo'],
    [{ config: { 'limits.cpu': 'x' } }, 'Failed creating instance record: Invalid CPU limit syntax'],
    [{ profiles: ['default', 'default'] }, 'Failed creating instance record: Duplicate profile found in request'],
    [
      { profiles: [] },
      'Failed creating instance record: Failed initialising instance: Failed getting root disk: No root device could be found',
    ],
    [
      { devices: { d: { type: 'disk', path: '/a/../../x', source: '/tmp' } } },
      'Failed creating instance record: Failed initialising instance: Invalid devices: Device validation failed for "d": The path of a disk cannot hold ".."',
    ],
    [{ devices: { d: { type: 'foo' } } }, 'Failed creating instance record: Invalid device type foo'],
    [
      { devices: { d: { type: 'disk', path: '/x' } } },
      'Failed creating instance record: Failed initialising instance: Invalid devices: Device validation failed for "d": Disk entry is missing the required "source" or "path" property',
    ],
    [
      { devices: { root: { type: 'disk', path: '/', pool: 'nope' } } },
      'Failed creating instance record: Failed initialising instance: Failed loading storage pool: Storage pool not found',
    ],
    [
      { devices: { n: { type: 'nic', network: 'nope' } } },
      'Failed creating instance record: Failed initialising instance: Invalid devices: Device validation failed for "n": Failed loading device "n": Failed to load network "nope" for project "default": Network not found',
    ],
  ])('fails with LXD’s text for %o', async (body, message) => {
    await using world = await World.open();
    expect(
      await world.fails(world.service.creator.create('default', { name: 'c1', source: { type: 'none' }, ...body })),
    ).toBe(message);
    expect(world.storage.roots.size).toBe(0);
  });

  it('refuses a name that is taken', async () => {
    await using world = await World.open();
    await world.create('c1');
    const message = await world.fails(
      world.service.creator.create('default', { name: 'c1', source: { type: 'none' } }),
    );
    expect(message).toContain('This "instances" entry already exists');
    expect([...world.storage.roots.keys()]).toEqual(['pool/default/c1']);
  });
});

describe('state', () => {
  it('starts, freezes, thaws and stops', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.start('c1');
    expect(world.service.reader.get('default', 'c1').instance.status).toBe('Running');
    const config = world.config('c1');
    expect(config).toMatchObject({ 'volatile.last_state.power': 'RUNNING' });
    expect(config['volatile.eth0.host_name']).toMatch(/^veth[0-9a-f]{8}$/);
    expect(config['volatile.apply_template']).toBeUndefined();
    expect(world.networks.prepared).toEqual(new Set(['c1/eth0']));
    const change = (action: string) => world.service.runner.change('default', 'c1', { action });
    expect(await world.fails(change('start'))).toBe('The instance is already running');
    expect(await world.fails(change('unfreeze'))).toBe('The container is already running');
    await world.ok(change('freeze'));
    expect(world.service.reader.get('default', 'c1').instance.status_code).toBe(110);
    expect(await world.fails(change('freeze'))).toBe('The container is already frozen');
    await world.ok(change('stop'));
    expect(await world.fails(change('stop'))).toBe('The instance is already stopped');
    expect(world.networks.prepared.size + world.storage.mounted.size + world.volumes.mounted.size).toBe(0);
    expect(world.config('c1')['volatile.eth0.host_name']).toBeUndefined();
    expect(world.actions().slice(1)).toEqual(['instance-started', 'instance-paused', 'instance-shutdown']);
    expect(() => change('foo')).toThrow("Unknown action: 'foo'");
  });

  it('undoes a start that fails', async () => {
    await using world = await World.open();
    await world.create('c1');
    world.driver.failStart = new Error('no cgroup');
    expect(await world.fails(world.service.runner.change('default', 'c1', { action: 'start' }))).toBe('no cgroup');
    expect(world.networks.prepared.size + world.storage.mounted.size + world.volumes.mounted.size).toBe(0);
    expect(world.config('c1')['volatile.last_state.power']).toBeUndefined();
  });

  it('cleans up after a guest that ends by itself, and deletes an ephemeral one', async () => {
    await using world = await World.open();
    await world.create('c1', { ephemeral: true });
    await world.start('c1');
    world.driver.powerOff('c1');
    await expect.poll(() => world.actions().at(-1)).toBe('instance-deleted');
    expect(world.actions()).toContain('instance-shutdown');
    expect(world.storage.roots.size + world.networks.prepared.size).toBe(0);
  });

  it('restarts an ephemeral instance without losing it', async () => {
    await using world = await World.open();
    await world.create('c1', { ephemeral: true });
    await world.start('c1');
    await world.ok(world.service.runner.change('default', 'c1', { action: 'restart', force: true }));
    expect(world.service.reader.get('default', 'c1').instance.status).toBe('Running');
    expect(world.actions().at(-1)).toBe('instance-restarted');
  });

  it('changes the state of all instances at once and names those that cannot', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.create('c2');
    await world.ok(world.service.runner.changeAll('default', { action: 'start' }));
    expect(['c1', 'c2'].map((key) => world.driver.state(key).status)).toEqual(['Running', 'Running']);
    await world.ok(world.service.runner.changeAll('default', { action: 'stop', force: true }));
    expect(await world.fails(world.service.runner.changeAll('default', { action: 'unfreeze' }))).toContain(
      "- Instance: c1: The container isn't running",
    );
  });

  it('writes templates on the first start only', async () => {
    await using world = await World.open();
    world.images.templatesOfImage = {
      metadata: { templates: { '/etc/hostname': { when: ['create', 'copy'], template: 'hostname.tpl' } } },
      files: new Map([['hostname.tpl', '{{ container.name }}\n']]),
    };
    await world.create('c1');
    await world.start('c1');
    expect(world.files.files.get('/roots/c1/etc/hostname')).toBe('c1\n');
    world.files.files.clear();
    await world.ok(world.service.runner.change('default', 'c1', { action: 'restart', force: true }));
    expect(world.files.files.size).toBe(0);
  });
});

describe('after a crash', () => {
  it('undoes a half-made instance', async () => {
    await using world = await World.open();
    const root = {
      pool: 'pool',
      project: 'default',
      instance: 'half',
      type: 'container' as const,
      idRange: undefined,
      nesting: false,
    };
    await world.intents.begin('instance-create', { project: 'default', name: 'half', root });
    await world.storage.createFilled(root);
    await world.intents.recover();
    expect(world.storage.roots.size).toBe(0);
  });

  it('finishes a delete', async () => {
    await using world = await World.open();
    await world.create('c1');
    const root = {
      pool: 'pool',
      project: 'default',
      instance: 'c1',
      type: 'container' as const,
      idRange: undefined,
      nesting: false,
    };
    await world.intents.begin('instance-delete', { project: 'default', name: 'c1', root });
    await world.intents.recover();
    expect(world.collections.instances.list()).toEqual([]);
    expect(world.collections.metadata.list()).toEqual([]);
    expect(world.storage.roots.size).toBe(0);
  });
});

describe('change', () => {
  it('replaces config and devices, and applies them to a running guest', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.start('c1');
    const config = { ...world.config('c1'), 'limits.memory': '64MiB', 'limits.cpu': '2' };
    const devices = { shared: { type: 'disk', source: '/tmp', path: '/mnt' } };
    await world.ok(world.service.changer.put('default', 'c1', { config, devices, profiles: ['default'] }));
    expect(world.driver.limits.get('c1')).toMatchObject({ memory: 64 * 1024 ** 2, cpus: [0, 1] });
    expect(world.driver.calls).toContain('attach mount shared');
    await world.ok(world.service.changer.put('default', 'c1', { config: world.config('c1'), profiles: ['default'] }));
    expect(world.driver.calls).toContain('detach mount shared');
    expect(world.service.reader.get('default', 'c1').instance.devices).toEqual({});
  });

  it.each([
    [{ config: {} }, "Volatile idmap keys can't be deleted by the user"],
    [
      { devices: { root: { type: 'disk', path: '/', pool: 'other' } } },
      'Cannot update root disk device pool name to "other"',
    ],
    [{ profiles: [] }, 'Invalid devices: Failed detecting root disk device: No root device could be found'],
  ])('refuses %o', async (change, message) => {
    await using world = await World.open();
    await world.create('c1');
    const body = { config: { ...world.config('c1') }, profiles: ['default'], ...change };
    expect(await world.fails(world.service.changer.put('default', 'c1', body))).toBe(message);
  });

  it('patches single keys', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.service.changer.patch('default', 'c1', { config: { 'user.a': 'b' }, description: 'x' });
    expect(world.service.reader.get('default', 'c1').instance).toMatchObject({ description: 'x' });
    expect(world.config('c1')).toMatchObject({ 'user.a': 'b', 'image.os': 'Tiny' });
    await expect(world.service.changer.patch('default', 'c1', { config: { foo: 'x' } })).rejects.toThrow(
      'Invalid config: Unknown configuration key: foo',
    );
    await expect(world.service.changer.patch('default', 'c1', { restore: 's' })).rejects.toThrow(
      "Can't call PATCH in restore mode",
    );
  });

  it('brings running guests in line with a profile', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.start('c1');
    const { value: before } = world.collections.profiles.get('default/default') ?? {};
    if (before === undefined) throw new Error('no profile');
    const after = { ...before, config: { 'limits.processes': '50' } };
    await world.collections.profiles.update('default/default', () => after);
    await world.service.apply(before, after);
    expect(world.driver.limits.get('c1')?.processes).toBe(50);
  });
});

describe('snapshots', () => {
  it('names them by the pattern and restores', async () => {
    await using world = await World.open();
    await world.create('c1', { config: { 'user.x': '1' } });
    await world.ok(world.service.snapshots.create('default', 'c1', {}));
    await world.ok(world.service.snapshots.create('default', 'c1', {}));
    expect(world.service.snapshots.list('default', 'c1').urls()).toEqual([
      '/1.0/instances/c1/snapshots/snap0',
      '/1.0/instances/c1/snapshots/snap1',
    ]);
    await world.service.changer.patch('default', 'c1', { config: { 'user.x': '2' } });
    await world.start('c1');
    await world.ok(world.service.snapshots.restore('default', 'c1', 'c1/snap0'));
    expect(world.config('c1')['user.x']).toBe('1');
    expect(world.service.reader.get('default', 'c1').instance.status).toBe('Running');
    expect(await world.fails(world.service.snapshots.restore('default', 'c1', 'nope'))).toBe(
      'Snapshot c1/nope does not exist',
    );
  });

  it('lets a guest run on when its restore is refused', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.ok(world.service.snapshots.create('default', 'c1', {}));
    await world.start('c1');
    world.storage.unrestorable = errors.badRequest('Snapshot "snap0" cannot be restored');
    expect(await world.fails(world.service.snapshots.restore('default', 'c1', 'snap0'))).toBe(
      'Snapshot "snap0" cannot be restored',
    );
    expect(world.service.reader.get('default', 'c1').instance.status).toBe('Running');
  });

  it('refuses names that are taken or bad', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.ok(world.service.snapshots.create('default', 'c1', { name: 's0' }));
    expect(await world.fails(world.service.snapshots.create('default', 'c1', { name: 's0' }))).toContain(
      'already exists',
    );
    expect(() => world.service.snapshots.create('default', 'c1', { name: 'a/b' })).toThrow(
      'Invalid snapshot name: Cannot contain "/"',
    );
    expect(() => world.service.snapshots.get('default', 'c1', 'x')).toThrow(
      'Failed to fetch snapshot "x" of instance "c1" in project "default"',
    );
  });
});

describe('exec without sockets', () => {
  it('tells the exit code and keeps output when asked', async () => {
    await using world = await World.open();
    await world.create('c1');
    expect(() => world.service.executor.exec('default', 'c1', { command: ['true'] })).toThrow(
      'Instance is not running',
    );
    await world.start('c1');
    world.driver.onExec = () => ({ code: 3, stdout: 'hi' });
    expect((await world.ok(world.service.executor.exec('default', 'c1', { command: ['x'] }))).metadata).toEqual({
      return: 3,
    });
    const recorded = await world.ok(
      world.service.executor.exec('default', 'c1', { command: ['x'], 'record-output': true }),
    );
    expect(recorded.metadata?.['output']).toEqual({
      '1': `/1.0/instances/c1/logs/exec_${recorded.id}.stdout`,
      '2': `/1.0/instances/c1/logs/exec_${recorded.id}.stderr`,
    });
    await using handle = await world.service.logs.open('default', 'c1', `exec_${recorded.id}.stdout`);
    expect(await handle.readFile('utf8')).toBe('hi');
    await expect(world.service.logs.open('default', 'c1', '../x')).rejects.toThrow('not valid');
    expect(() => world.service.executor.exec('default', 'c1', { command: ['a\0b'] })).toThrow('NUL');
    expect(() => world.service.executor.exec('default', 'c1', { command: ['a'], environment: { 'A=B': '' } })).toThrow(
      'Invalid name',
    );
    world.driver.onExec = () => ({ code: 127 });
    expect(await world.fails(world.service.executor.exec('default', 'c1', { command: ['x'] }))).toBe(
      'Command not found',
    );
  });
});

describe('lists', () => {
  it('shows state, snapshots and backups with recursion 2', async () => {
    await using world = await World.open();
    await world.create('c1');
    await world.start('c1');
    const scope = { project: 'default', may: () => true, mayKey: '', type: undefined, noun: 'instances' };
    const list = await world.service.reader.listFull(scope);
    expect(list.values()).toMatchObject([
      {
        name: 'c1',
        state: { status: 'Running', processes: 3, cpu: { usage: 1_000_000 } },
        snapshots: null,
        backups: null,
      },
    ]);
    const again = await world.service.reader.listFull(scope);
    expect(again.version).toBe(list.version);
    await world.ok(world.service.runner.change('default', 'c1', { action: 'stop', force: true }));
    expect((await world.service.reader.listFull(scope)).version).not.toBe(list.version);
    expect(world.service.reader.list(scope).urls()).toEqual(['/1.0/instances/c1']);
  });
});
