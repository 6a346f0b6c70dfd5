import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { answerOf, NoAnswerError, ReachProbe } from './reach.ts';
import { CommandError } from './run.ts';

describe('answerOf', () => {
  it('gives the output, or the failure', async () => {
    expect(await answerOf('echo', ['here'], 10_000)).toBe('here\n');
    await expect(answerOf('ls', ['/no/such'], 10_000)).rejects.toBeInstanceOf(CommandError);
    await expect(answerOf('no-such-program', [], 10_000)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('does not wait for a process that hangs', async () => {
    const error: unknown = await answerOf('sleep', ['600'], 20).catch((failure: unknown) => failure);
    expect(error).toBeInstanceOf(NoAnswerError);
    if (error instanceof NoAnswerError) await error.gone;
  });
});

describe('ReachProbe', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'reach-'))));
  afterEach(() => rmSync(folder, { recursive: true }));

  it('asks one question for all who wait', async () => {
    let asked = 0;
    const probe = new ReachProbe(async () => {
      asked += 1;
      await answerOf('true', [], 10_000);
    });
    await Promise.all([probe.check(), probe.check(), probe.check()]);
    expect(asked).toBe(1);
    await probe.check();
    expect(asked).toBe(2);
  });

  it('fails while the cause is there, and works when it is gone', async () => {
    const probe = new ReachProbe(() => answerOf('test', ['-e', join(folder, 'x')], 10_000));
    await expect(probe.check()).rejects.toBeInstanceOf(CommandError);
    writeFileSync(join(folder, 'x'), '');
    await probe.check();
  });

  it('starts no second process beside one that hangs', async () => {
    let asked = 0;
    const { promise: gone, resolve } = Promise.withResolvers<void>();
    const probe = new ReachProbe(async () => {
      asked += 1;
      if (asked === 1) throw new NoAnswerError('hangs', gone);
    });
    await expect(probe.check()).rejects.toThrow('hangs');
    const second = probe.check();
    await Promise.resolve();
    expect(asked).toBe(1);
    resolve();
    await second;
    expect(asked).toBe(2);
  });
});
