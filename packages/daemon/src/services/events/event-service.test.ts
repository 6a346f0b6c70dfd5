import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../core/clock.ts';
import type { Event } from './contract.ts';
import { EventService } from './event-service.ts';

const create = (options: { keepEvents?: number; keepBytes?: number } = {}) =>
  new EventService({ clock: new ManualClock(1_616_622_278_753), ...options });
const start = 1_616_622_278_753_000;
const created = { action: 'instance-created', source: '/1.0/instances/c1' };

describe('EventService', () => {
  it('numbers events and stamps them as LXD does', () => {
    const events = create();
    const seen: Event[] = [];
    events.subscribe((event) => seen.push(event));
    events.lifecycle('default', created);
    events.logging({ level: 'info', message: 'hello', context: {} });
    expect(seen).toEqual([
      {
        type: 'lifecycle',
        timestamp: '2021-03-24T21:44:38.753Z',
        metadata: created,
        project: 'default',
        location: 'none',
        sequence: start + 1,
      },
      expect.objectContaining({ type: 'logging', project: '', sequence: start + 2 }),
    ]);
  });

  it('delivers by type and project until told to stop; what has no project goes to all', () => {
    const events = create();
    const seen: string[] = [];
    const stop = events.subscribe(({ type, project }) => seen.push(`${type} ${project}`), {
      types: ['operation', 'lifecycle'],
      project: 'p1',
    });
    const all = () => {
      events.lifecycle('p1', created);
      events.operation('p2', {});
      events.operation('', {});
      events.logging({});
    };
    all();
    stop();
    all();
    expect(seen).toEqual(['lifecycle p1', 'operation ']);
  });

  it('replays what came after a sequence, filtered, then goes on', () => {
    const events = create();
    for (let count = 1; count <= 5; count += 1) {
      events.operation(count % 2 === 0 ? 'even' : 'odd', count);
    }
    const seen: unknown[] = [];
    events.subscribe(({ metadata }) => seen.push(metadata), { since: start + 1, project: 'odd' });
    events.operation('odd', 7);
    expect(seen).toEqual([3, 5, 7]);
    const none: unknown[] = [];
    events.subscribe(({ metadata }) => none.push(metadata), { since: start + 999 });
    expect(none).toEqual([]);
  });

  it('numbers on after a restart, and replays everything for a sequence of an earlier life', () => {
    const clock = new ManualClock(1_616_622_278_753);
    const earlier = new EventService({ clock });
    const seen: number[] = [];
    earlier.subscribe(({ sequence }) => seen.push(sequence));
    earlier.operation('', {});
    clock.advance(1);
    const later = new EventService({ clock });
    later.operation('', {});
    later.subscribe(({ sequence }) => seen.push(sequence), { since: seen[0] ?? 0 });
    expect(seen).toHaveLength(2);
    expect(seen[1]).toBeGreaterThan(seen[0] ?? 0);
  });

  it('keeps a bounded number and size for replay', () => {
    const replayed = (events: EventService): number[] => {
      const sequences: number[] = [];
      events.subscribe(({ sequence }) => sequences.push(sequence - start), { since: 0 });
      return sequences;
    };
    const few = create({ keepEvents: 1500 });
    for (let count = 0; count < 5000; count += 1) {
      few.operation('', {});
    }
    expect([replayed(few).length, replayed(few)[0], replayed(few).at(-1)]).toEqual([1500, 3501, 5000]);
    const small = create({ keepBytes: 5000 });
    for (let count = 0; count < 20; count += 1) {
      small.operation('', { text: 'x'.repeat(1000) });
    }
    expect(replayed(small)).toEqual([17, 18, 19, 20]);
  });

  it('keeps a failing listener from disturbing others', () => {
    const events = create();
    let heard = 0;
    events.subscribe(() => {
      throw new Error('bad listener');
    });
    events.subscribe(() => (heard += 1));
    events.lifecycle('default', created);
    expect(heard).toBe(1);
  });
});
