import { commandLine, identify, isOfThisHost, listProcesses, sendSignal, waitForEnd } from '../proc.ts';
import type { RbdPlace } from './rbd.ts';

const SIGKILL = 9;
const PATIENCE = 10_000;

/** Ends commands that work on the image though whoever started them is gone. */
export async function endCommandsOn({ conf, pool }: RbdPlace, image: string): Promise<void> {
  for (const pid of listProcesses()) {
    const found = identify(pid);
    const [program = '', ...args] = commandLine(pid);
    const named = args.includes(image) || args.includes(`${pool}/${image}`);
    if (found === undefined || !/(?:^|\/)rbd$/.test(program) || !named || !args.includes(conf)) continue;
    if (!isOfThisHost(pid)) continue;
    sendSignal(found, SIGKILL);
    await waitForEnd(found, PATIENCE);
  }
}
