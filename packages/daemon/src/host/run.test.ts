import { expect, it } from 'vitest';
import { CommandError, run } from './run.ts';

it('tells how much a command has read while it runs', async () => {
  const told: number[] = [];
  await run('sh', ['-c', 'head -c 3000000 /dev/zero | cat > /dev/null; exec sleep 0.6'], {
    onRead: (bytes) => told.push(bytes),
  });
  expect(told.length).toBeGreaterThan(0);
  expect(told).toEqual(told.toSorted((a, b) => a - b));
});

it('names the command that failed, its exit and what it said', async () => {
  const failed = run('sh', ['-c', 'echo no such thing >&2; exit 3']);
  await expect(failed).rejects.toBeInstanceOf(CommandError);
  await expect(failed).rejects.toMatchObject({ code: 3, stderr: 'no such thing\n' });
});
