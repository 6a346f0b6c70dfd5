import { setTimeout as delay } from 'node:timers/promises';
import { named, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ExecProcess } from '../../packages/daemon/src/drivers/instance/contract.ts';
import { host, LxcHarness, ref } from './lxc-harness.ts';

describe.skipIf(!host.ok)(named('lxc driver: terminals', host), () => {
  let lxc: LxcHarness;
  beforeAll(async () => {
    lxc = await LxcHarness.create();
    await lxc.driver.start(lxc.spec('c1'));
  });
  afterAll(() => lxc[Symbol.asyncDispose]());

  async function start(script: string): Promise<ExecProcess & { readonly type: (text: string | Buffer) => void }> {
    const terminal = { width: 80, height: 25 };
    const spec = { command: ['sh', '-c', script], environment: {}, user: 0, group: 0, cwd: '', terminal };
    const process = await lxc.driver.exec(ref('c1'), spec);
    return { ...process, type: (text) => void process.terminal?.write(text) };
  }

  async function outcome(process: ExecProcess): Promise<{ code: number; shown: string }> {
    const chunks: Buffer[] = [];
    for await (const chunk of process.terminal ?? []) chunks.push(chunk);
    const code = await process.exited;
    await process.dispose();
    return { code, shown: Buffer.concat(chunks).toString() };
  }

  it('keeps what is typed before the command runs; its output has the guest’s own newlines', async () => {
    for (let round = 0; round < 10; round++) {
      const process = await start('read a; echo got $a');
      process.type('x\n');
      expect(await outcome(process)).toEqual({ code: 0, shown: 'x\r\ngot x\r\n' });
    }
  });

  it('ends input at a Ctrl-D typed at once', async () => {
    const process = await start('cat; echo over');
    process.type('x\n\u0004');
    expect(await outcome(process)).toEqual({ code: 0, shown: 'x\r\nx\r\nover\r\n' });
  });

  it('has the size it was started with', async () => {
    expect(await outcome(await start('stty size'))).toEqual({ code: 0, shown: '25 80\r\n' });
  });

  it('takes a size that is set while the command is still being started', async () => {
    const process = await start('until [ "$(stty size)" != "25 80" ]; do sleep 0.02; done; stty size');
    process.resize(99, 22);
    expect(await outcome(process)).toEqual({ code: 0, shown: '22 99\r\n' });
  });

  it('interrupts with Ctrl-C', async () => {
    const process = await start('trap "echo caught; exit 3" INT; echo ready; while :; do sleep 0.02; done');
    // Not before the newline: what nobody has read yet is thrown away by a Ctrl-C.
    const interrupt = (chunk: Buffer): void => {
      if (!chunk.includes('\n')) return;
      process.terminal?.off('data', interrupt);
      process.type('\u0003');
    };
    process.terminal?.on('data', interrupt);
    expect(await outcome(process)).toEqual({ code: 3, shown: 'ready\r\n^Ccaught\r\n' });
  });

  it('holds the command back for a slow reader and loses nothing', async () => {
    const process = await start('seq 1 700000');
    let ended = false;
    void process.exited.then(() => {
      ended = true;
    });
    let [length, last, pieces] = [0, '', 0];
    for await (const chunk of process.terminal ?? []) {
      if (pieces++ < 40) await delay(20);
      if (pieces === 40) expect(ended).toBe(false);
      length += chunk.length;
      last = `${last}${chunk}`.slice(-8);
    }
    // Every number with a return and a newline.
    expect({ length, last, code: await process.exited }).toEqual({ length: 5_488_895, last: '700000\r\n', code: 0 });
    await process.dispose();
  });

  it('gives the rest to a reader who comes after the end', async () => {
    const process = await start('echo late');
    expect(await process.exited).toBe(0);
    expect((await outcome(process)).shown).toBe('late\r\n');
  });

  it('shows what a command writes that leaves much input unread for now', async () => {
    const process = await start('stty raw -echo; echo ready; sleep 0.5; seq 1 100000; head -c 300000 | wc -c');
    process.terminal?.once('data', () => process.type(Buffer.alloc(300_000, 'x')));
    const { code, shown } = await outcome(process);
    expect({ code, length: shown.length, last: shown.slice(-14) }).toEqual({
      code: 0,
      length: 'ready\n'.length + 588_895 + '300000\n'.length,
      last: '100000\n300000\n',
    });
  });

  it('interrupts a command that leaves much input unread', async () => {
    const process = await start(
      'stty -icanon -echo; trap "echo caught; exit 3" INT; echo ready; while :; do sleep 0.02; done',
    );
    process.terminal?.once('data', () => process.type(Buffer.concat([Buffer.alloc(3000, 'x'), Buffer.of(3)])));
    expect((await outcome(process)).code).toBe(3);
  });

  it('interrupts a command whose output nobody reads', async () => {
    const runs = async (): Promise<boolean> => / yes$/m.test((await lxc.exec('c1', ['ps'])).stdout);
    const process = await start('exec yes');
    await until('the command to run', runs);
    process.type('\u0003');
    await until('the command to end', async () => !(await runs()));
    expect((await outcome(process)).code).toBe(130);
  });

  it('waits for a command that does not read, without holding up anything else', async () => {
    const process = await start('stty raw -echo; echo ready; sleep 0.3; head -c 300000');
    process.terminal?.once('data', () => process.type(Buffer.alloc(300_000, 'x')));
    const ticking = setInterval(() => ticks++, 10);
    let ticks = 0;
    const { code, shown } = await outcome(process);
    clearInterval(ticking);
    expect({ code, length: shown.length }).toEqual({ code: 0, length: 'ready\n'.length + 300_000 });
    expect(ticks).toBeGreaterThan(5);
  });
});
