import { closeSync, openSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { CommandError, run } from './run.ts';

it('tells how much a command has read while it runs', async () => {
  const told: number[] = [];
  await run('sh', ['-c', 'head -c 3000000 /dev/zero | cat > /dev/null; exec sleep 0.6'], {
    onRead: (bytes) => told.push(bytes),
  });
  expect(told[0]).toBe(0);
  expect(told.length).toBeGreaterThan(1);
  expect(told).toEqual(told.toSorted((a, b) => a - b));
});

it('names the command that failed, its exit and what it said', async () => {
  const failed = run('sh', ['-c', 'echo no such thing >&2; exit 3']);
  await expect(failed).rejects.toBeInstanceOf(CommandError);
  await expect(failed).rejects.toMatchObject({ code: 3, stderr: 'no such thing\n' });
});

it('gives input, keeps both outputs apart and lets other exit codes pass', async () => {
  const said = await run('sh', ['-c', 'cat; echo aside >&2; exit 7'], { input: 'x'.repeat(300_000), ok: [7] });
  expect(said).toEqual({ code: 7, stdout: 'x'.repeat(300_000), stderr: 'aside\n' });
  await expect(run('true', [], { input: 'x'.repeat(1_000_000) })).resolves.toMatchObject({ code: 0 });
});

it('gives the command its own environment, folder and signals, and no descriptor of ours', async () => {
  const env = { PATH: '/usr/bin:/bin', GREETING: 'hello' };
  expect((await run('sh', ['-c', 'echo $GREETING; pwd; echo $0'], { env, cwd: '/proc' })).stdout).toBe(
    'hello\n/proc\nsh\n',
  );
  const status = (await run('grep', ['-E', '^Sig(Blk|Ign)', '/proc/self/status'])).stdout;
  expect(status).toMatch(/^SigBlk:\t0+\nSigIgn:\t0+\n$/);
  const open = openSync('/dev/null', 'r');
  const descriptors = (await run('ls', ['/proc/self/fd'])).stdout.split('\n');
  closeSync(open);
  expect(descriptors).not.toContain(String(open));
});

it('kills a command that takes too long or is no longer wanted', async () => {
  await expect(run('sleep', ['60'], { timeout: 20 })).rejects.toMatchObject({ code: 128 });
  const cancel = new AbortController();
  const running = run('sh', ['-c', 'sleep 60 & wait'], { signal: cancel.signal });
  setTimeout(() => cancel.abort(new Error('cancelled')), 20);
  await expect(running).rejects.toThrow('cancelled');
});

it('says which program is not there', async () => {
  await expect(run('keelson-no-such-program', [])).rejects.toMatchObject({ code: 'ENOENT' });
  await expect(run('/etc/passwd', [])).rejects.toMatchObject({ code: 'EACCES' });
});

it('starts many at once and leaves no zombie', async () => {
  const codes = await Promise.all(
    Array.from({ length: 60 }, (_, index) => run('sh', ['-c', `exit ${index}`], { ok: [index] })),
  );
  expect(codes.map(({ code }) => code)).toEqual(Array.from({ length: 60 }, (_, index) => index));
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').split(' ').filter(Boolean);
  const states = children.map((pid) => /^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  expect(states).not.toContain('Z');
});
