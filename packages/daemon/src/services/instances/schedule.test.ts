import { describe, expect, it } from 'vitest';
import { World } from './testing/world.ts';

describe('before the host goes down', () => {
  it('shuts guests down by priority, by force where asking does not help, for the next daemon to start', async () => {
    await using world = await World.open();
    for (const [name, priority] of [
      ['late', '0'],
      ['early', '5'],
      ['idle', '9'],
    ] as const)
      await world.create(name, { config: { 'boot.stop.priority': priority } });
    for (const name of ['late', 'early']) await world.start(name);
    await world.service.resume('this boot');
    world.driver.calls.length = 0;
    world.driver.deaf = true;
    await world.service.shutdownAll();
    expect(world.driver.calls).toEqual(['shutdown early', 'kill early', 'shutdown late', 'kill late']);
    expect(world.networks.prepared.size + world.storage.mounted.size).toBe(0);
    const boot = world.ledger.collection<object>('/boot/').get('local')?.value;
    const powers = ['late', 'early', 'idle'].map((name) => world.config(name)['volatile.last_state.power']);
    expect([boot, powers]).toEqual([{ bootId: '' }, ['RUNNING', 'RUNNING', undefined]]);
  });
});
