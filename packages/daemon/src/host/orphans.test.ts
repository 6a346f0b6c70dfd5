import { spawn } from 'node:child_process';
import { afterEach, expect, it } from 'vitest';
import { endOrphans } from './orphans.ts';
import { identify, isAlive, type ProcessIdentity } from './proc.ts';
import { COMMAND_ENVIRONMENT, OWNER_VARIABLE } from './run.ts';

const made: ProcessIdentity[] = [];
afterEach(() => {
  for (const one of made.splice(0)) if (isAlive(one)) process.kill(one.pid, 'SIGKILL');
});

/** A command that waits until it is ended, started by `owner`. */
async function commandOf(owner: string, program: string, ...args: string[]): Promise<ProcessIdentity> {
  const env = { ...COMMAND_ENVIRONMENT, [OWNER_VARIABLE]: owner };
  const child = spawn(program, args, { env, stdio: ['pipe', 'ignore', 'ignore'] });
  await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
  const found = identify(child.pid ?? 0);
  if (found === undefined) throw new Error(`${program} ended at once`);
  made.push(found);
  return found;
}

it('ends what moves files, and nothing of others', async () => {
  const [own, other] = [`${process.pid}.own`, `${process.pid}.other`];
  const mover = await commandOf(own, 'cat');
  const inside = await commandOf(own, 'tar', '--extract', '--file=-');
  const stranger = await commandOf(other, 'cat');
  expect(await endOrphans(own, 20_000)).toEqual([]);
  expect([mover, inside, stranger].map(isAlive)).toEqual([false, false, true]);
});

it('waits for what must not be cut off, and tells what does not end', async () => {
  const owner = `${process.pid}.waited`;
  const short = await commandOf(owner, 'sleep', '0.3');
  expect(await endOrphans(owner, 20_000)).toEqual([]);
  expect(isAlive(short)).toBe(false);
  const long = await commandOf(owner, 'sleep', '1000');
  expect(await endOrphans(owner, 50)).toEqual([{ pid: long.pid, command: 'sleep 1000' }]);
  expect(isAlive(long)).toBe(true);
});
