import { afterEach, beforeEach, expect, it } from 'vitest';
import { ManualClock } from '../../core/clock.ts';
import { randomIds } from '../../core/ids.ts';
import { silentLog } from '../../core/log.ts';
import type { Ledger } from '../../state/collection.ts';
import { createLedger } from '../../state/ledger.ts';
import { MemoryStore } from '../../state/memory/memory-store.ts';
import type { Store } from '../../state/store.ts';
import type { Intent } from './contract.ts';
import { IntentService } from './intent-service.ts';

let store: Store;
let ledger: Ledger;

beforeEach(async () => {
  store = new MemoryStore();
  ledger = await createLedger(store);
});
afterEach(async () => {
  await ledger[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
});

const service = (log = silentLog) => new IntentService({ ledger, log, clock: new ManualClock(), ids: randomIds });
const left = () => ledger.collection('/intents/').list().length;

it('is durable from begin to end, and ends with the writes that make the change final', async () => {
  const intents = service();
  const intent = await intents.begin('instance-create', { name: 'c1' });
  expect(intent).toMatchObject({ kind: 'instance-create', data: { name: 'c1' }, startedAt: '2020-09-13T12:26:40Z' });
  expect((await store.list('/intents/')).entries).toHaveLength(1);
  const before = (await store.list('/')).revision;
  await intents.end(intent, [ledger.collection('/instances/').put('default/c1', { name: 'c1' })]);
  expect(await store.list('/')).toMatchObject({ entries: [{ key: '/instances/default/c1' }], revision: before + 1 });
  await intents.end(intent);
});

it('recovers what is left, oldest first, and forgets it', async () => {
  const earlier = service();
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    await earlier.begin('instance-delete', { name });
  }
  const later = service();
  const names: string[] = [];
  later.handle('instance-delete', async (intent: Intent<{ name: string }>) => {
    names.push(intent.data.name);
  });
  await later.begin('instance-delete', { name: 'f' });
  await later.recover();
  expect(names).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  expect(left()).toBe(0);
});

it('keeps what cannot be recovered for the next start, and goes on with the rest', async () => {
  const logged: string[] = [];
  const intents = service({ ...silentLog, error: (message) => logged.push(message) });
  await intents.begin('broken', 1);
  await intents.begin('unknown', 2);
  await intents.begin('fine', 3);
  const seen: unknown[] = [];
  intents.handle('broken', () => Promise.reject(new Error('no')));
  intents.handle('fine', async ({ data }) => void seen.push(data));
  await intents.recover();
  expect(seen).toEqual([3]);
  expect(left()).toBe(2);
  expect(logged).toHaveLength(2);
});

it('refuses a second handler of a kind', () => {
  const intents = service();
  intents.handle('a', async () => undefined);
  expect(() => intents.handle('a', async () => undefined)).toThrow('a handler already');
});
