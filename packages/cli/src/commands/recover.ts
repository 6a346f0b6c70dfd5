import type { RecoverPoolPost, RecoverResult } from '@keelson/api';
import { type Command, defineCommand, ExitError, keyValues, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { ask } from '../output/terminal.ts';
import { answerOf } from './answer.ts';

type Action = 'validate' | 'import';

function send(context: Context, action: Action, pools: readonly RecoverPoolPost[]): Promise<RecoverResult> {
  const { client, signal } = context;
  return answerOf<RecoverResult>(client.request('POST', `/internal/recover/${action}`, { pools }, { signal }));
}

/** @throws UsageError without a terminal to ask on. */
async function question(text: string, fallback: string): Promise<string> {
  const answer = await ask(`${text} [${fallback === '' ? 'none' : fallback}]: `);
  if (answer === undefined)
    throw new UsageError('There is no terminal to ask on: name pools with --pool and add --yes');
  return answer.trim() === '' ? fallback : answer.trim();
}

async function confirmed(text: string, fallback: boolean): Promise<boolean> {
  for (;;) {
    const answer = (await question(`${text} (yes/no)`, fallback ? 'yes' : 'no')).toLowerCase();
    if (answer === 'yes' || answer === 'y') return true;
    if (answer === 'no' || answer === 'n') return false;
  }
}

/** The pool that the options name, if they do. @throws UsageError */
function poolOf(parsed: Parsed): RecoverPoolPost | undefined {
  const name = parsed.value('pool');
  const [driver, source] = [parsed.value('driver'), parsed.value('source')];
  if (name === undefined) {
    if (driver !== undefined || source !== undefined) throw new UsageError('Name the pool with --pool');
    return undefined;
  }
  const config = { ...keyValues(parsed.values('config')), ...(source === undefined ? {} : { source }) };
  return { name, ...(driver === undefined ? {} : { driver }), config };
}

async function askForPools(known: readonly RecoverPoolPost[]): Promise<RecoverPoolPost[]> {
  const pools = [...known];
  while (await confirmed('Is there another storage pool to recover?', false)) {
    const name = await question('Name of the storage pool', '');
    if (name === '') continue;
    const driver = await question('Its driver (dir, btrfs, zfs, lvm, ceph, cephfs)', 'dir');
    const source = await question(
      'Its source (folder, loop file, block device, volume group, dataset, OSD pool; none: where this server would make it)',
      '',
    );
    const config: Record<string, string> = source === '' ? {} : { source };
    for (;;) {
      const word = await question('A further setting, as key=value; none: no more', '');
      if (word === '') break;
      Object.assign(config, keyValues([word]));
    }
    pools.push({ name, driver, config });
  }
  return pools;
}

function tell(context: Context, title: string, lines: readonly string[]): void {
  if (lines.length === 0) return;
  context.out.note(title);
  for (const line of lines) context.out.note(`  ${line}`);
}

function show(context: Context, result: RecoverResult): void {
  const volumes = result.UnknownVolumes.map(({ type, name, project, pool, snapshotCount }) => {
    const snapshots = snapshotCount === 1 ? '1 snapshot' : `${snapshotCount} snapshots`;
    return `${type} ${name} in project ${project}, on pool ${pool}, with ${snapshots}`;
  });
  tell(context, 'Found, and unknown to the server:', volumes);
  tell(context, 'Cannot be recovered:', result.Problems);
  tell(context, 'Has to be there first:', result.DependencyErrors.map(withAdvice));
}

/** What a dependency asks for, with the command that makes it. */
function withAdvice(missing: string): string {
  const [, kind = '', name = '', project] = /^(\S+(?: pool)?) "([^"]*)"(?: in project "([^"]*)")?$/.exec(missing) ?? [];
  const scope = project === undefined || project === 'default' ? '' : ` --project ${project}`;
  const advice: Readonly<Record<string, string>> = {
    Project: `keelson project create ${name}`,
    Profile: `keelson profile create ${name}${scope}`,
    Network: `keelson network create ${name}${scope}`,
    'Storage pool': 'name it here too',
  };
  const found = advice[kind];
  return found === undefined ? missing : `${missing}: ${found}`;
}

async function recover(context: Context, parsed: Parsed): Promise<number> {
  const existing = (await context.client.storagePools.all()).map((pool) => ({ name: pool.name }));
  const named = poolOf(parsed);
  const quiet = parsed.flag('yes') || named !== undefined;
  const others = existing.filter(({ name }) => name !== named?.name);
  let pools: RecoverPoolPost[] = named === undefined ? others : [...others, named];
  if (!quiet) {
    tell(
      context,
      'Storage pools the server knows:',
      existing.map(({ name }) => name),
    );
    pools = await askForPools(pools);
  }
  if (pools.length === 0)
    throw new UsageError('There is no storage pool to look at: name one with --pool, --driver and --source');
  const found = await scan(context, pools, quiet);
  const nothing = found.UnknownVolumes.length === 0;
  if (nothing && pools.every(({ name }) => existing.some((one) => one.name === name))) return finish(context, found);
  if (!parsed.flag('yes') && !(await confirmed('Recover these?', false))) return 0;
  return finish(context, await send(context, 'import', pools));
}

/** Looks until nothing is missing; @throws ExitError where nobody can be asked to make it. */
async function scan(context: Context, pools: readonly RecoverPoolPost[], quiet: boolean): Promise<RecoverResult> {
  for (;;) {
    const found = await send(context, 'validate', pools);
    if (context.out.format !== 'json') show(context, found);
    if (found.DependencyErrors.length === 0) return found;
    if (context.out.format === 'json') context.out.record(found);
    if (quiet) throw new ExitError('Nothing was recovered: make what is missing first', 1);
    await question('Make what is missing, then press Enter to look again', 'ready');
  }
}

function finish(context: Context, done: RecoverResult): number {
  if (context.out.format === 'json') context.out.record(done);
  else {
    tell(context, 'Not recovered:', done.Problems);
    const names = done.UnknownVolumes.map(({ name }) => name);
    context.out.note(names.length === 0 ? 'There was nothing to recover.' : `Recovered: ${names.join(', ')}`);
  }
  return done.Problems.length > 0 ? 1 : 0;
}

export const recoverCommand: Command = defineCommand({
  path: ['admin', 'recover'],
  summary: 'Bring back instances and volumes that are on storage pools and not in the database',
  options: [
    { name: 'pool', value: 'name', summary: 'look at this pool too; asks nothing about pools' },
    { name: 'driver', value: 'name', summary: 'driver of a pool the server does not know' },
    {
      name: 'source',
      value: 'path',
      summary: 'folder, loop file, device, volume group, dataset or OSD pool of such a pool',
    },
    { name: 'config', value: 'key=value', summary: 'further setting of such a pool', many: true },
    { name: 'yes', short: 'y', summary: 'recover what is found, without asking' },
  ],
  examples: [
    'keelson admin recover',
    'keelson admin recover --pool default --driver dir --yes',
    'keelson admin recover --pool old --driver btrfs --source /mnt/old.img --yes --format json',
    'keelson admin recover --pool far --driver ceph --source lxd --config ceph.user.name=lxd --yes',
  ],
  run: recover,
});
