import { mkdirSync } from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { command } from './command.ts';
import { tryLock } from './machine-lock.ts';

const COUNT = 500;

/** A network for one test: nobody else on this machine has it until it is disposed. */
export interface TestSubnet extends AsyncDisposable {
  /** At most 15 characters. */
  readonly bridge: string;
  /** The bridge's own address with prefix, `10.x.y.1/24`. */
  readonly address: string;
  /** First three numbers, `10.x.y`. */
  readonly prefix: string;
  /** Unique ULA with prefix length 64, `fd42:…::1/64`. */
  readonly address6: string;
}

/** Hands out networks that are unique between all test processes of the machine. */
export const subnets = {
  /** On dispose a bridge of that name and its nftables table are removed too, should a test have left them. */
  take(): TestSubnet {
    const folder = join(tmpdir(), 'keelson-test-subnets');
    mkdirSync(folder, { recursive: true });
    const start = Math.floor(Math.random() * COUNT);
    const used = JSON.stringify(networkInterfaces());
    for (let step = 0; step < COUNT; step++) {
      const index = (start + step) % COUNT;
      const prefix = `10.${218 + Math.floor(index / 250)}.${index % 250}`;
      if (used.includes(`"${prefix}.`)) continue;
      const held = tryLock(join(folder, String(index)));
      if (held !== undefined) return subnet(index, prefix, held);
    }
    throw new Error('Every test subnet is taken');
  },
};

function subnet(index: number, prefix: string, held: Disposable): TestSubnet {
  const bridge = `ktb${index}`;
  return {
    bridge,
    prefix,
    address: `${prefix}.1/24`,
    address6: `fd42:4b45:4c53:${(index + 1).toString(16)}::1/64`,
    async [Symbol.asyncDispose]() {
      await removeNetwork(bridge);
      held[Symbol.dispose]();
    },
  };
}

/** Removes a bridge and every nftables table whose name holds the bridge's. */
async function removeNetwork(bridge: string): Promise<void> {
  await command('ip', ['link', 'delete', bridge], { anyExit: true });
  const { stdout } = await command('nft', ['list', 'tables'], { anyExit: true });
  for (const line of stdout.split('\n')) {
    const [, family, table] = /^table (\S+) (\S+)$/.exec(line) ?? [];
    if (family === undefined || table === undefined || !table.split(/[^a-z0-9]+/i).includes(bridge)) continue;
    await command('nft', ['delete', 'table', family, table], { anyExit: true });
  }
}
