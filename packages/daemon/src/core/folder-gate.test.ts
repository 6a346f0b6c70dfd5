import { describe, expect, it } from 'vitest';
import { FolderGate } from './folder-gate.ts';

describe('FolderGate', () => {
  it('is closed when the last one left, and lets nobody in meanwhile', async () => {
    const gate = new FolderGate();
    const first = await gate.enter();
    const second = await gate.enter();
    const order: string[] = [];
    const closing = gate.close(10_000).then((closed) => {
      order.push('closed');
      return closed;
    });
    const entering = gate.enter().then((entered) => {
      order.push('entered');
      return entered;
    });
    first[Symbol.dispose]();
    first[Symbol.dispose](); // counts once
    await Promise.resolve();
    expect(order).toEqual([]);
    second[Symbol.dispose]();
    const closed = await closing;
    expect(closed).toBeDefined();
    expect(order).toEqual(['closed']);
    closed?.[Symbol.dispose]();
    (await entering)[Symbol.dispose]();
    expect(order).toEqual(['closed', 'entered']);
  });

  it('stays open for all when somebody stays too long', async () => {
    const gate = new FolderGate();
    const inside = await gate.enter();
    expect(await gate.close(1)).toBeUndefined();
    (await gate.enter())[Symbol.dispose]();
    inside[Symbol.dispose]();
    expect(await gate.close(1)).toBeDefined();
  });

  it('keeps out who finds the folder unusable', async () => {
    const gate = new FolderGate();
    gate.preparedBy(() => Promise.reject(new Error('no disk')));
    await expect(gate.enter()).rejects.toThrow('no disk');
    expect(await gate.close(1)).toBeDefined();
  });
});
