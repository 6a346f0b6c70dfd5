import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { World } from '../instances/testing/world.ts';

/** A migration that comes in, as far as it can be refused before anybody is asked. */
describe('who may have this server connect to another', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.open();
  });
  afterEach(() => world[Symbol.asyncDispose]());

  const operation = 'https://host:8443/1.0/operations/c0ffee00-0000-4000-8000-000000000000';
  const source = { type: 'migration', mode: 'pull', operation, secrets: { control: 'a', fs: 'b' } };
  const create = (more: object, mayFetch: boolean) =>
    world.service.creator.create('default', { name: 'c1', source: { ...source, ...more } }, { mayFetch });

  test('without the certificate of the other server only an administrator', async () => {
    await expect(create({}, false)).rejects.toThrow('Only an administrator');
    await expect(create({ certificate: 'nonsense' }, false)).rejects.toThrow('Invalid certificate');
  });

  test('nothing but the operation of another server', async () => {
    await expect(create({ operation: 'http://169.254.169.254/latest' }, true)).rejects.toThrow('HTTPS URL');
    await expect(create({ secrets: {} }, true)).rejects.toThrow('Missing control secret');
    await expect(create({ mode: 'carrier pigeon' }, true)).rejects.toThrow('not implemented');
  });

  test('no live migration, no name that is taken', async () => {
    await expect(create({ live: true }, true)).rejects.toThrow('Stateful migration is not supported');
    await world.create('c1');
    await expect(create({}, true)).rejects.toThrow('already exists');
    await world.start('c1');
    expect(() => world.service.lifecycle.post('default', 'c1', { migration: true, live: true })).toThrow('Stateful');
  });

  test('a source gives its secrets to who asked, and waits only so long', async () => {
    await world.create('c1');
    const { record } = world.service.lifecycle.post('default', 'c1', { migration: true });
    expect(record).toMatchObject({ class: 'websocket', may_cancel: true });
    const secrets = record.metadata as Record<string, string>;
    expect(Object.keys(secrets)).toEqual(['control', 'fs']);
    for (const secret of Object.values(secrets)) expect(secret).toMatch(/^[0-9a-f]{64}$/);
    expect(world.operations.get(record.id)?.metadata).toBeNull();
    await world.operations.cancel(record.id);
    expect((await world.operations.wait(record.id, 10))?.status).toBe('Cancelled');
  });
});
