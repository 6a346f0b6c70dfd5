import { type Command, defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { attach, terminalSize } from '../output/terminal.ts';

const CTRL_A = 1;

/** Sees Ctrl-A q in what is typed, also in two pieces, and calls `leave`; Ctrl-A alone goes to the guest with what follows. */
export function detachOn(leave: () => void, send: (data: Uint8Array) => void): (data: Buffer) => boolean {
  let held = false;
  return (data) => {
    if (held) {
      held = false;
      if (data[0] === 'q'.charCodeAt(0)) {
        leave();
        return true;
      }
      send(Buffer.from([CTRL_A]));
    }
    const at = data.lastIndexOf(CTRL_A);
    if (at < 0) return false;
    if (data[at + 1] === 'q'.charCodeAt(0)) {
      leave();
      return true;
    }
    if (at < data.length - 1) return false;
    held = true;
    if (at > 0) send(data.subarray(0, at));
    return true;
  };
}

async function attachTo(context: Context, word: string): Promise<void> {
  const { client, name } = context.target(word);
  const instance = await client.instances.get(name, { signal: context.signal });
  const left = new AbortController();
  const running = await instance.console({ ...terminalSize(), signal: AbortSignal.any([left.signal, context.signal]) });
  context.out.note('To leave the console, press Ctrl-A and then q.');
  const intercept = detachOn(
    () => left.abort(new Error('left')),
    (data) => void running.write(data),
  );
  try {
    await attach(running, { intercept });
  } catch (error) {
    if (!left.signal.aborted) throw error;
  }
}

export const consoleCommands: readonly Command[] = [
  defineCommand({
    path: ['console'],
    summary: 'Attach to the console of an instance, or show what it printed',
    args: [{ name: 'instance', summary: 'name of the instance' }],
    options: [{ name: 'show-log', summary: 'show what the console printed and return' }],
    run: async (context, parsed) => {
      if (!parsed.flag('show-log')) return attachTo(context, parsed.arg('instance'));
      const { client, name } = context.target(parsed.arg('instance'));
      context.out.text(await (await client.instances.get(name)).consoleLog());
    },
  }),
];
