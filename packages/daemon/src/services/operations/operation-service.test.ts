import { setImmediate as turn } from 'node:timers/promises';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { ManualClock } from '../../core/clock.ts';
import { errors } from '../../core/errors.ts';
import { randomIds } from '../../core/ids.ts';
import { silentLog } from '../../core/log.ts';
import type { OperationContext, OperationRecord, OperationSpec } from './contract.ts';
import { OperationService } from './operation-service.ts';

let clock: ManualClock;
let events: { project: string; record: OperationRecord }[];
let operations: OperationService;

beforeEach(() => {
  clock = new ManualClock();
  events = [];
  operations = new OperationService({
    clock,
    ids: randomIds,
    log: silentLog,
    events: { operation: (project, record) => events.push({ project, record: record as OperationRecord }) },
  });
});

const spec = (over: Partial<OperationSpec> = {}): OperationSpec => ({
  class: 'task',
  project: 'default',
  description: 'Starting instance',
  resources: { instances: ['/1.0/instances/c1'] },
  run: async () => undefined,
  ...over,
});

/** Work that ends when it is told to, or when it is cancelled. */
function controlled() {
  const gate = Promise.withResolvers<Record<string, unknown> | void>();
  const run: OperationSpec['run'] = ({ signal }) =>
    Promise.race([
      gate.promise,
      new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    ]);
  return { run, finish: gate.resolve, fail: gate.reject };
}

const statuses = () => events.map(({ record }) => record.status);

describe('an operation', () => {
  it('tells the speed from the first bytes on when it was told that a stage begins, and nothing of that', async () => {
    const { run, finish } = controlled();
    const contexts: OperationContext[] = [];
    const started = operations.start(
      spec({
        run: (context) => {
          contexts.push(context);
          context.progress('fs', { bytes: 0, label: 'c1' });
          return run(context);
        },
      }),
    );
    await turn();
    expect(operations.get(started.record.id)?.metadata ?? null).toBeNull();
    await new Promise((resolve) => setTimeout(resolve, 2));
    contexts[0]?.progress('fs', { bytes: 5_000_000, label: 'c1' });
    finish();
    await started.done;
    expect(operations.get(started.record.id)?.metadata).toMatchObject({
      fs_progress: expect.stringMatching(/^c1: 5\.00MB \([0-9.]+[kMG]?B\/s\)$/) as string,
      progress: { stage: 'fs', processed: '5000000', speed: expect.stringMatching(/^[0-9]+$/) as string },
    });
  });

  it('is shown as LXD shows it, from start to end', async () => {
    const { run, finish } = controlled();
    const started = operations.start(spec({ run }));
    expect(started.record).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      class: 'task',
      description: 'Starting instance',
      created_at: '2020-09-13T12:26:40Z',
      updated_at: '2020-09-13T12:26:40Z',
      status: 'Running',
      status_code: 103,
      resources: { instances: ['/1.0/instances/c1'] },
      metadata: null,
      may_cancel: false,
      err: '',
      location: 'none',
    });
    clock.advance(1500);
    finish({ answer: 42 });
    const ended = await started.done;
    expect(ended).toMatchObject({ status: 'Success', status_code: 200, metadata: { answer: 42 }, err: '' });
    expect(ended.updated_at).toBe('2020-09-13T12:26:41.5Z');
    expect(operations.get(started.record.id)).toBe(ended);
    expect(statuses()).toEqual(['Pending', 'Running', 'Success']);
    expect(events.every(({ project }) => project === 'default')).toBe(true);
  });

  it('fails with the text of its error', async () => {
    const own = operations.start(spec({ run: () => Promise.reject(errors.notFound('Pool "x" not found')) }));
    expect(await own.done).toMatchObject({ status: 'Failure', status_code: 400, err: 'Pool "x" not found' });
    const thrown = operations.start(
      spec({
        run: () => {
          throw new Error('boom');
        },
      }),
    );
    expect(await thrown.done).toMatchObject({ status_code: 400, err: 'boom' });
  });

  it('has no resources as null', () => {
    expect(operations.start(spec({ resources: {} })).record.resources).toBeNull();
  });

  it('merges metadata and sends at most ten updates a second, the last one always', async () => {
    vi.useFakeTimers();
    try {
      const { run, finish } = controlled();
      const contexts: OperationContext[] = [];
      const started = operations.start(
        spec({
          metadata: { first: true },
          run: (context) => {
            contexts.push(context);
            return run(context);
          },
        }),
      );
      await vi.advanceTimersByTimeAsync(0);
      for (let percent = 0; percent <= 100; percent += 1) {
        contexts[0]?.progress('download', { percent, bytesPerSecond: 1000 });
        await vi.advanceTimersByTimeAsync(10);
      }
      contexts[0]?.update({ last: 1 });
      await vi.advanceTimersByTimeAsync(200);
      const updates = events.slice(2).map(({ record }) => record.metadata);
      expect(updates.length).toBeGreaterThan(8);
      expect(updates.length).toBeLessThan(14);
      expect(updates.at(-1)).toMatchObject({ first: true, last: 1, download_progress: 'rootfs: 100% (1.00kB/s)' });
      const sent = events.length;
      finish();
      await started.done;
      expect(events).toHaveLength(sent + 1);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('locks', () => {
  const lock = 'instance/default/c1';

  it('refuse a second operation with the busy text, and are free when the end is known', async () => {
    const { run, finish } = controlled();
    const started = operations.start(spec({ run, locks: [lock, 'other/x'] }));
    expect(() => operations.start(spec({ locks: [lock] }))).toThrow('Instance is busy running a "start" operation');
    expect(() => operations.start(spec({ locks: ['other/x'] }))).toThrow(
      'Other "x" is busy running a "start" operation',
    );
    operations.start(spec({ locks: ['instance/default/c2'] }));
    finish();
    await started.done;
    const again = operations.start(spec({ locks: [lock], action: 'boot', run: () => Promise.reject(new Error('no')) }));
    expect(() => operations.start(spec({ locks: [lock] }))).toThrow('busy running a "boot" operation');
    await again.done;
    await operations.start(spec({ locks: [lock] })).done;
  });

  it('make operations and exclusive work wait for each other', async () => {
    const order: string[] = [];
    const inner = Promise.withResolvers<void>();
    const first = operations.exclusive([lock], async () => {
      await inner.promise;
      order.push('exclusive');
    });
    const started = operations.start(spec({ locks: [lock], run: async () => void order.push('operation') }));
    const second = operations.exclusive([lock], async () => order.push('exclusive again'));
    await turn();
    expect(order).toEqual([]);
    inner.resolve();
    await Promise.all([first, started.done, second]);
    expect(order).toEqual(['exclusive', 'operation', 'exclusive again']);
  });
});

describe('cancel', () => {
  it('ends as Cancelled, without an error', async () => {
    const { run } = controlled();
    const started = operations.start(spec({ run, mayCancel: true }));
    await turn();
    await operations.cancel(started.record.id);
    expect(operations.get(started.record.id)?.status).toBe('Cancelling');
    expect(await started.done).toMatchObject({ status: 'Cancelled', status_code: 401, err: '', may_cancel: true });
    expect(statuses()).toEqual(['Pending', 'Running', 'Cancelling', 'Cancelled']);
  });

  it('leaves an operation that finished all the same a success', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const started = operations.start(spec({ run: () => promise, mayCancel: true }));
    await turn();
    await operations.cancel(started.record.id);
    resolve();
    expect((await started.done).status).toBe('Success');
  });

  it('ends a token that returns when it is cancelled', async () => {
    const run: OperationSpec['run'] = ({ signal }) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
    const started = operations.start(spec({ class: 'token', run }));
    await turn();
    await operations.cancel(started.record.id);
    expect((await started.done).status).toBe('Cancelled');
  });

  it('is refused as LXD refuses it', async () => {
    const { run, finish } = controlled();
    const { record, done } = operations.start(spec({ run }));
    await expect(operations.cancel(record.id)).rejects.toThrow("This operation can't be cancelled");
    finish();
    await done;
    await expect(operations.cancel(record.id)).rejects.toThrow('Only running operations can be cancelled');
    await expect(operations.cancel('none')).rejects.toThrow('Operation not found');
  });
});

describe('wait', () => {
  it('returns the final record, or the present one after the timeout or the end of patience', async () => {
    const { run, finish } = controlled();
    const { record } = operations.start(spec({ run }));
    expect((await operations.wait(record.id, 0))?.status).toBe('Running');
    const gone = new AbortController();
    const given = operations.wait(record.id, -1, gone.signal);
    gone.abort();
    expect((await given)?.status).toBe('Running');
    const [forever, long] = [operations.wait(record.id, -1), operations.wait(record.id, 1e9)];
    finish();
    expect((await forever)?.status).toBe('Success');
    expect((await long)?.status).toBe('Success');
    expect((await operations.wait(record.id, -1))?.status).toBe('Success');
    expect(await operations.wait('none', -1)).toBeUndefined();
  });
});

describe('records', () => {
  it('stay in lists for seconds and by id for minutes', async () => {
    const { record, done } = operations.start(spec());
    await done;
    expect(operations.list()).toHaveLength(1);
    clock.advance(6000);
    expect(operations.list()).toHaveLength(0);
    expect(operations.get(record.id)?.status).toBe('Success');
    clock.advance(300_000);
    expect(operations.get(record.id)).toBeUndefined();
  });

  it('are bounded in number, the oldest ends forgotten first', async () => {
    const few = new OperationService({
      clock,
      ids: randomIds,
      log: silentLog,
      events: { operation: () => undefined },
      keepAtMost: 2,
    });
    const started = [1, 2, 3].map(() => few.start(spec()));
    await Promise.all(started.map(({ done }) => done));
    expect(started.map(({ record }) => few.get(record.id) !== undefined)).toEqual([false, true, true]);
  });

  it('belong to a project; those of none to all', () => {
    const { run } = controlled();
    const [p1, none] = [operations.start(spec({ run, project: 'p1' })), operations.start(spec({ run, project: '' }))];
    expect(operations.list('p1')).toHaveLength(2);
    expect(operations.list('p2').map(({ id }) => id)).toEqual([none.record.id]);
    expect(operations.get(p1.record.id, 'p2')).toBeUndefined();
    expect(operations.get(p1.record.id, 'p1')?.id).toBe(p1.record.id);
  });
});

describe('websockets', () => {
  const secrets = { 0: 'a'.repeat(64), control: 'b'.repeat(64) };
  // Only handed through.
  const socket = {} as WebSocket;

  it('show their secrets to the creator only', async () => {
    const { run, finish } = controlled();
    const started = operations.start(spec({ class: 'websocket', run, secrets, metadata: { command: ['sh'] } }));
    expect(started.record.metadata).toEqual({ command: ['sh'], fds: secrets });
    const flat = operations.start(spec({ class: 'websocket', run, secrets, secretsAs: 'metadata' }));
    expect(flat.record.metadata).toEqual(secrets);
    finish();
    const ended = [await started.done, await flat.done];
    const shown = JSON.stringify([
      ended,
      events,
      operations.list(),
      operations.get(started.record.id),
      await operations.wait(started.record.id, 0),
    ]);
    expect(shown).not.toContain('aaaa');
    expect(shown).not.toContain('bbbb');
  });

  it('are handed over by secret while the operation runs', async () => {
    const { run, finish } = controlled();
    const connected: string[] = [];
    const connect = (name: string, given: WebSocket) => {
      expect(given).toBe(socket);
      connected.push(name);
    };
    const { record, done } = operations.start(spec({ class: 'websocket', run, secrets, connect }));
    expect(operations.connect(record.id, secrets.control, socket)).toBe(true);
    for (const wrong of ['', 'a', 'a'.repeat(63), 'c'.repeat(64), 'control']) {
      expect(operations.connect(record.id, wrong, socket)).toBe(false);
    }
    expect(operations.connect('none', secrets.control, socket)).toBe(false);
    finish();
    await done;
    expect(operations.connect(record.id, secrets[0], socket)).toBe(false);
    expect(connected).toEqual(['control']);
  });
});

describe('shutdown', () => {
  it('interrupts what runs, waits for its end and starts nothing more', async () => {
    const { run } = controlled();
    const { done } = operations.start(spec({ run }));
    await turn();
    await operations[Symbol.asyncDispose]();
    expect(await done).toMatchObject({ status: 'Failure', err: 'The daemon is shutting down' });
    expect(() => operations.start(spec())).toThrow('The daemon is shutting down');
  });
});
