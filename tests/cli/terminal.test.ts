import { Client } from '@keelson/client';
import { allOf, named, probePrograms, probeRoot } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CliWorld, type Person } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc-start', 'mksquashfs'));

describe.skipIf(!probe.ok)(named('keelson on a terminal', probe), () => {
  let world: CliWorld;
  let person: Person;
  beforeAll(async () => {
    world = await CliWorld.open();
    person = world.person;
    await person.ok('launch', 'tiny', 't1');
  });
  afterAll(async () => world?.[Symbol.asyncDispose]());

  test('exec: a terminal of the same size, which follows; the exit code', async () => {
    const script =
      'trap "stty size" WINCH; tty; stty size; echo ready; while [ "$answer" != bye ]; do read answer; done; exit 5';
    using terminal = person.onTerminal(['exec', 't1', '--', 'sh', '-c', script], { cols: 111, rows: 33 });
    await terminal.shows(/\/dev\/pts\/\d+\r+\n33 111\r+\nready/);
    terminal.pty.resize(90, 20);
    terminal.type('\n');
    await terminal.shows(/20 90/);
    terminal.type('bye\n');
    expect(await terminal.exited).toBe(5);
  });

  test('shell: typing, Ctrl-C for the guest, end of input', async () => {
    using terminal = person.onTerminal(['shell', 't1']);
    await terminal.shows(/# /);
    // Who says 42 has the foreground: a shell that has just started a command may still have it itself.
    terminal.type("sh -c 'echo $((40+2)); exec sleep 1000'\n");
    await terminal.shows(/42\r+\n/);
    terminal.type('\u0003');
    terminal.type('echo $((50+5))\n');
    // Only at its prompt does the shell read a Ctrl-D by itself.
    await terminal.shows(/55\r+\n[^]*# /);
    terminal.type('\u0004');
    // The shell ends with the exit code of its last command.
    expect(await terminal.exited).toBe(0);
  });

  test('exec -T: no terminal in the guest although here is one', async () => {
    using terminal = person.onTerminal(['exec', '-T', 't1', 'tty']);
    await terminal.shows(/not a tty/);
    expect(await terminal.exited).toBe(1);
  });

  test('exec -t: a terminal in the guest although here is none', async () => {
    const { code, stdout } = await person.run(['exec', '-t', 't1', '--', 'sh', '-c', 'tty; exit 3'], { input: '' });
    expect(code).toBe(3);
    expect(stdout).toMatch(/^\/dev\/pts\/\d+\r+\n$/);
  });

  test('exec -t: input that is there before the command is not lost', async () => {
    const script = 'read answer; echo "got $answer"';
    const { code, stdout } = await person.run(['exec', '-t', 't1', '--', 'sh', '-c', script], { input: 'x\n' });
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'x\r\ngot x\r\n' });
  });

  test('exec -t: a slow reader gets all of the output, and the exit code', async () => {
    const instance = await new Client({ endpoint: `unix:${world.daemon.socket}` }).instances.get('t1');
    await using process = await instance.shell(['sh', '-c', 'seq 1 700000; exit 4']);
    let [length, pieces] = [0, 0];
    for await (const chunk of process.stdout) {
      if (pieces++ < 20) await new Promise((resolve) => setTimeout(resolve, 40));
      length += chunk.byteLength;
    }
    // Every number with a return and a newline.
    expect({ length, code: await process.exited }).toEqual({ length: 5_488_895, code: 4 });
  });

  test('exec -t: a client that goes takes its command along', async () => {
    const instance = await new Client({ endpoint: `unix:${world.daemon.socket}` }).instances.get('t1');
    const process = await instance.shell(['sh', '-c', 'echo ready; exec sleep 4322']);
    await process.stdout[Symbol.asyncIterator]().next();
    await process[Symbol.asyncDispose]();
    const gone = async () => !(await instance.execute(['ps'])).stdout.includes('sleep 4322');
    await expect.poll(gone, { timeout: 10_000 }).toBe(true);
  });

  test('console: what is typed arrives, Ctrl-A q leaves, the instance goes on', async () => {
    using terminal = person.onTerminal(['console', 't1']);
    await terminal.shows(/press Ctrl-A and then q/);
    terminal.type('\u0001q');
    expect(await terminal.exited).toBe(0);
    expect(await person.ok('list', '-f', 'csv', '-c', 'ns', 't1')).toBe('t1,RUNNING\n');
  });

  test('Ctrl-C without a terminal in the guest goes to the command, whose exit code counts', async () => {
    const script = 'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 1; done';
    using terminal = person.onTerminal(['exec', '-T', 't1', '--', 'sh', '-c', script]);
    await terminal.shows(/ready/);
    terminal.type('\u0003');
    await terminal.shows(/caught/);
    expect(await terminal.exited).toBe(9);
  });

  test('Ctrl-C ends monitor', async () => {
    using terminal = person.onTerminal(['monitor', '--type', 'lifecycle']);
    for (let count = 0; !terminal.shown.includes('instance-updated') && count < 50; count++) {
      await world.daemon.run('PATCH', '/1.0/instances/t1', { config: { 'user.count': String(count) } });
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await terminal.shows(/lifecycle instance-updated \/1\.0\/instances\/t1/);
    terminal.type('\u0003');
    expect(await terminal.exited).toBe(0);
  });
});
