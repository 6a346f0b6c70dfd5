import { readdirSync } from 'node:fs';
import { named, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ExecProcess, ExecSpec } from '../../packages/daemon/src/drivers/instance/contract.ts';
import { childrenOf } from '../../packages/daemon/src/host/proc.ts';
import { host, LxcHarness, ref, text } from './lxc-harness.ts';

const plain = (command: readonly string[], changes: Partial<ExecSpec> = {}): ExecSpec => ({
  ...{ command, environment: {}, user: 0, group: 0, cwd: '', terminal: undefined },
  ...changes,
});

describe.skipIf(!host.ok)(named('lxc driver: exec', host), () => {
  let lxc: LxcHarness;
  beforeAll(async () => {
    lxc = await LxcHarness.create();
    await lxc.driver.start(lxc.spec('c1'));
    await until('the boot', async () => (await lxc.driver.consoleLog(ref('c1'))).includes('tiny: ready'));
  });
  afterAll(() => lxc[Symbol.asyncDispose]());

  it('keeps stdin, stdout and stderr apart', async () => {
    const process = await lxc.driver.exec(ref('c1'), plain(['sh', '-c', 'cat; echo err >&2; exit 3']));
    process.stdio?.stdin.end('in\0put');
    const [stdout, stderr] = await Promise.all([
      text(process.stdio?.stdout ?? nothing()),
      text(process.stdio?.stderr ?? nothing()),
    ]);
    expect({ stdout, stderr, code: await process.exited }).toEqual({ stdout: 'in\0put', stderr: 'err\n', code: 3 });
    await process.dispose();
  });

  it('carries much data both ways', async () => {
    const data = Buffer.alloc(5_000_000, 'keelson ');
    const process = await lxc.driver.exec(ref('c1'), plain(['cat']));
    process.stdio?.stdin.end(data);
    expect(await text(process.stdio?.stdout ?? nothing())).toBe(data.toString());
    expect(await process.exited).toBe(0);
  });

  it('gives the exit codes of a shell', async () => {
    expect(await lxc.exec('c1', ['/bin/true'])).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(await lxc.exec('c1', ['no-such-command'])).toEqual({ code: 127, stdout: '', stderr: '' });
    expect(await lxc.exec('c1', ['/etc'])).toEqual({ code: 126, stdout: '', stderr: '' });
    expect((await lxc.exec('c1', ['sh', '-c', 'kill -9 $$'])).code).toBe(137);
  });

  it('clears the environment and sets the usual one', async () => {
    const root = await lxc.exec('c1', ['env'], { environment: { A: 'it\'s = "x"\nnewline', EMPTY: '' } });
    expect(root.stdout.split('\n').sort()).toEqual(
      [
        ...['', 'EMPTY=', 'HOME=/root', 'LANG=C.UTF-8', 'USER=root', 'container=lxc', 'newline'],
        'A=it\'s = "x"',
        'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      ].sort(),
    );
    const other = await lxc.exec('c1', ['sh', '-c', 'echo "$HOME:$USER:$X"; id; pwd'], {
      user: 1000,
      group: 1000,
      environment: { X: '1' },
    });
    expect(other.stdout).toBe('::1\nuid=1000(tester) gid=1000(tester)\n/\n');
  });

  it('starts in the wanted folder, also in one only the guest has', async () => {
    expect((await lxc.exec('c1', ['pwd'])).stdout).toBe('/root\n');
    expect((await lxc.exec('c1', ['pwd'], { cwd: '/etc' })).stdout).toBe('/etc\n');
    await lxc.exec('c1', ['mkdir', '-p', "/srv/it's only here"]);
    expect((await lxc.exec('c1', ['pwd'], { cwd: "/srv/it's only here" })).stdout).toBe("/srv/it's only here\n");
    expect((await lxc.exec('c1', ['pwd'], { cwd: '/no/such/folder' })).stdout).toBe('/\n');
  });

  it('gives a terminal with the right size and resizes it', async () => {
    const script = 'tty; stty size; trap "stty size; exit 7" WINCH; echo ready; while :; do sleep 0.05; done';
    const spec = plain(['sh', '-c', script], { terminal: { width: 101, height: 33 } });
    const process = await lxc.driver.exec(ref('c1'), spec);
    const seen = collect(process);
    await until('the script', () => seen.text().includes('ready'));
    expect(seen.text()).toMatch(/\/dev\/(pts\/\d+|console)\r\n33 101\r\n/);
    process.resize(72, 18);
    expect(await process.exited).toBe(7);
    await seen.ended;
    expect(seen.text()).toContain('18 72');
    await process.dispose();
  });

  it('passes keys typed on the terminal, byte for byte', async () => {
    const spec = plain(['sh', '-c', 'stty raw -echo; echo ready; head -c 4 | hexdump -C'], {
      terminal: { width: 80, height: 24 },
    });
    const process = await lxc.driver.exec(ref('c1'), spec);
    const seen = collect(process);
    await until('the script', () => seen.text().includes('ready'));
    process.terminal?.write(Buffer.from([0xff, 0x00, 0xc3, 0x28]));
    await process.exited;
    await seen.ended;
    expect(seen.text()).toContain('ff 00 c3 28');
  });

  it('loses no output of a terminal', async () => {
    const spec = plain(['seq', '1', '50000'], { terminal: { width: 80, height: 24 } });
    const process = await lxc.driver.exec(ref('c1'), spec);
    const seen = collect(process);
    expect(await process.exited).toBe(0);
    await seen.ended;
    expect(seen.text().split('\r\n').length).toBe(50_001);
  });

  it('delivers signals to the command itself', async () => {
    for (const terminal of [undefined, { width: 80, height: 24 }]) {
      const script = 'trap "exit 42" USR1; echo ready; while :; do sleep 0.02; done';
      const process = await lxc.driver.exec(ref('c1'), plain(['sh', '-c', script], { terminal }));
      const seen = collect(process);
      await until('the trap', () => seen.text().includes('ready'));
      process.signal(10);
      expect(await process.exited).toBe(42);
    }
    const sleeping = await lxc.driver.exec(ref('c1'), plain(['sleep', '1000']));
    sleeping.signal(15); // sent while it is still being set up
    expect(await sleeping.exited).toBe(143);
  });

  it('ends the command on dispose', async () => {
    for (const terminal of [undefined, { width: 80, height: 24 }]) {
      const process = await lxc.driver.exec(
        ref('c1'),
        plain(['sh', '-c', 'echo ready; exec sleep 4711'], { terminal }),
      );
      const seen = collect(process);
      await until('the command', () => seen.text().includes('ready'));
      await process.dispose();
      await process.dispose();
      expect(await process.exited).toBe(137);
    }
    expect((await lxc.exec('c1', ['ps'])).stdout).not.toContain('sleep 4711');
  });

  it('attaches to the console', async () => {
    const console = await lxc.driver.console(ref('c1'), { width: 80, height: 24 });
    const seen = collect(console);
    await until('the console', async () => {
      await lxc.exec('c1', ['sh', '-c', 'echo hello console >/dev/console']);
      return seen.text().includes('hello console\r\n');
    });
    await console.dispose();
    expect(lxc.driver.state('c1').status).toBe('Running');
  });

  it('leaks no descriptor and no process over 500 commands', async () => {
    const batch = async (count: number, terminal: ExecSpec['terminal']): Promise<void> => {
      const processes = await Promise.all(
        Array.from({ length: count }, () => lxc.driver.exec(ref('c1'), plain(['true'], { terminal }))),
      );
      for (const process of processes) {
        const seen = collect(process);
        expect(await process.exited).toBe(0);
        await seen.ended;
        await process.dispose();
      }
    };
    const inside = async (): Promise<number> => (await lxc.driver.metrics('c1'))?.processes ?? 0;
    await batch(4, undefined);
    await batch(4, { width: 80, height: 24 });
    const before = { descriptors: descriptors(), children: childrenOf(process.pid).length, inside: await inside() };
    for (let round = 0; round < 40; round++) await batch(10, undefined);
    for (let round = 0; round < 10; round++) await batch(10, { width: 80, height: 24 });
    await until('everything to be closed', () => descriptors() <= before.descriptors);
    expect(childrenOf(process.pid).length).toBe(before.children);
    await until('no process to be left in the guest', async () => (await inside()) <= before.inside);
  });
});

const descriptors = (): number => readdirSync('/proc/self/fd').length;

async function* nothing(): AsyncGenerator<Buffer> {}

function collect(process: ExecProcess): { text: () => string; ended: Promise<void> } {
  const chunks: Buffer[] = [];
  const source = process.terminal ?? process.stdio?.stdout;
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  source?.on('data', (chunk: Buffer) => chunks.push(chunk));
  source?.once('end', resolve);
  source?.once('close', resolve);
  return { text: () => Buffer.concat(chunks).toString(), ended };
}
