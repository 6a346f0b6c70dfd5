import { afterEach, beforeEach, expect, it } from 'vitest';
import { ManualClock } from '../../core/clock.ts';
import { randomIds } from '../../core/ids.ts';
import type { Collection, Ledger } from '../../state/collection.ts';
import { createLedger } from '../../state/ledger.ts';
import { MemoryStore } from '../../state/memory/memory-store.ts';
import type { WarningRecord } from '../../state/records/warning.ts';
import { EventService } from '../events/event-service.ts';
import { WarningService } from './warning-service.ts';

let ledger: Ledger;
let records: Collection<WarningRecord>;
let warnings: WarningService;
let clock: ManualClock;
let actions: string[];

beforeEach(async () => {
  ledger = await createLedger(new MemoryStore());
  records = ledger.collection('/warnings/');
  clock = new ManualClock();
  const events = new EventService({ clock });
  actions = [];
  events.subscribe(({ metadata }) => actions.push((metadata as { action: string }).action));
  warnings = new WarningService({ warnings: records, events, clock, ids: randomIds });
});
afterEach(() => ledger[Symbol.asyncDispose]());

const trouble = { type: 'AppArmor support has been disabled', severity: 'low', message: 'No kernel support' } as const;
const only = () => records.list()[0]?.value.uuid ?? '';

it('shows a warning as LXD does', async () => {
  await warnings.raise(trouble);
  expect(warnings.get(only()).warning).toEqual({
    status: 'new',
    uuid: only(),
    location: 'none',
    project: '',
    type: 'AppArmor support has been disabled',
    count: 1,
    first_seen_at: '2020-09-13T12:26:40Z',
    last_seen_at: '2020-09-13T12:26:40Z',
    last_message: 'No kernel support',
    severity: 'low',
    entity_url: '',
  });
  expect(warnings.list(undefined).urls()).toEqual([`/1.0/warnings/${only()}`]);
  expect(
    warnings
      .list(undefined)
      .json()
      .map((text) => JSON.parse(text) as unknown),
  ).toEqual([warnings.get(only()).warning]);
});

it('counts the same trouble, also when it comes at once, and keeps other trouble apart', async () => {
  await Promise.all([warnings.raise(trouble), warnings.raise(trouble)]);
  clock.advance(1000);
  await warnings.raise({ ...trouble, message: 'Again' });
  expect(warnings.get(only()).warning).toMatchObject({
    count: 3,
    last_message: 'Again',
    last_seen_at: '2020-09-13T12:26:41Z',
  });
  await warnings.raise({ ...trouble, project: 'p1', entityUrl: '/1.0/instances/c1' });
  expect(records.list()).toHaveLength(2);
  expect(warnings.list('p1').values()).toHaveLength(1);
  expect(warnings.list('none').values()).toEqual([]);
});

it('is acknowledged, stays so when it comes again, and is new after it was resolved', async () => {
  await warnings.raise(trouble);
  await warnings.setStatus(only(), { status: 'acknowledged' });
  await warnings.raise(trouble);
  expect(warnings.get(only()).warning.status).toBe('acknowledged');
  await warnings.resolve(trouble);
  expect(warnings.get(only()).warning.status).toBe('resolved');
  await warnings.resolve({ type: 'unknown' });
  await warnings.raise(trouble);
  expect(warnings.get(only()).warning.status).toBe('new');
  await warnings.setStatus(only(), { status: 'new' });
  await warnings.delete(only());
  expect(actions).toEqual(['warning-acknowledged', 'warning-reset', 'warning-deleted']);
});

it('refuses what LXD refuses', async () => {
  await warnings.raise(trouble);
  await expect(warnings.setStatus(only(), { status: 'resolved' })).rejects.toThrow(
    'Status may only be set to "acknowledge" or "new"',
  );
  await expect(warnings.setStatus(only(), { status: 'foo' })).rejects.toThrow('Invalid warning type "foo"');
  await expect(warnings.setStatus('none', { status: 'new' })).rejects.toThrow('Warning not found');
  await expect(warnings.delete('none')).rejects.toThrow('Warning not found');
  expect(() => warnings.get('none')).toThrow('Warning not found');
  const changed = () => {
    throw new Error('changed');
  };
  await expect(warnings.setStatus(only(), { status: 'new' }, { precondition: changed })).rejects.toThrow('changed');
});
