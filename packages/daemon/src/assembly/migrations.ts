import { mirrorTree } from '../host/files.ts';
import { GuestRoot } from '../host/guest-root.ts';
import { UserNamespaces } from '../host/idmap.ts';
import { cloneMount, unmountAll } from '../host/mounts.ts';
import { prepareJail, receiveTree, sendTree } from '../host/tools/rsync.ts';
import { Migrations } from '../services/migration/migrations.ts';
import type { TransferTools } from '../services/migration/tools.ts';
import type { Foundations } from './foundations.ts';

/** Bytes of a small file: metadata and templates. */
const SMALL = 1024 * 1024;

/** What moves instances and volumes between servers. */
export function openMigrations(
  { operations, ids, clock, paths }: Foundations,
  stack: AsyncDisposableStack,
): Migrations {
  const tools = transferTools(stack.use(new UserNamespaces()));
  return new Migrations({ operations, ids, clock, tools, scratch: paths.scratch });
}

function transferTools(namespaces: UserNamespaces): TransferTools {
  return {
    sendTree,
    receiveTree,
    prepareJail,
    bind: async (source, target, { readOnly, unshift }) => {
      const shown =
        unshift === undefined
          ? {}
          : { usernsFd: await namespaces.get({ from: unshift.base, to: 0, size: unshift.size }) };
      await cloneMount(source, target, { readOnly, ...shown });
    },
    unmount: (target) => unmountAll(target),
    mirror: (source, target, signal) => mirrorTree(source, target, signal),
    readSmall,
  };
}

/** Whoever filled the folder may have put links, devices or endless files there. */
async function readSmall(folder: string, path: string): Promise<string | undefined> {
  await using root = await GuestRoot.open(folder);
  try {
    await using file = await root.openFile(path, 0);
    const { size } = await file.stat();
    return size > SMALL ? undefined : (await file.readFile()).toString('utf8');
  } catch {
    return undefined; // not there, or no plain file
  }
}
