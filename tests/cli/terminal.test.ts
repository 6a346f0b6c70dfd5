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
    terminal.type('echo $((40+2)); sleep 1000\n');
    await terminal.shows(/42\r+\n/);
    terminal.type('\u0003');
    terminal.type('echo $((50+5))\n');
    await terminal.shows(/55\r+\n/);
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
