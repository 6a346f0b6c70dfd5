import { type Command, defineCommand, keyValues, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { openInput } from '../input.ts';
import { splitRemote } from '../remotes.ts';
import { saveBackup } from './backup-file.ts';
import { timeOf } from './times.ts';

async function publish(context: Context, parsed: Parsed): Promise<void> {
  const { signal, out } = context;
  const from = context.target(parsed.arg('source'));
  const { remote, properties } = splitRest(parsed.rest('properties'));
  const [name = '', snapshot] = from.name.split('/');
  const found = await from.client.instances.get(name, { signal });
  const label = `Publishing ${from.name}`;
  out.progress(`${label} …`);
  const [compression, expires] = [parsed.value('compression'), parsed.value('expire')];
  const options = {
    wait: true,
    public: parsed.flag('public'),
    properties,
    ...(compression === undefined ? {} : { compression }),
    ...(expires === undefined ? {} : { expiresAt: timeOf(expires) }),
    signal,
    onProgress: out.operation(label),
  };
  const again = parsed.flag('force') && snapshot === undefined && found.status !== 'Stopped';
  if (again) await found.stop({ force: true, signal });
  try {
    const part = snapshot === undefined ? found : await found.snapshots.get(snapshot, { signal });
    let made = await part.publish(options);
    const target = remote === undefined ? undefined : context.clientOf(remote);
    if (made !== undefined && target !== undefined && target.endpoint !== from.client.endpoint) {
      const [image, copying] = [made, out.operation('Copying the image')];
      made = await image.copy(target, { wait: true, public: options.public, signal, onProgress: copying });
      await image.delete();
    }
    for (const alias of parsed.values('alias')) await made?.addAlias(alias);
    out.line(made?.fingerprint ?? '');
  } finally {
    if (again) await found.start();
  }
}

/** A word with a colon at its end is a remote; the others are properties. */
function splitRest(words: readonly string[]): { remote: string | undefined; properties: Record<string, string> } {
  const [first, ...rest] = words;
  if (first === undefined || first.includes('=') || !first.endsWith(':'))
    return { remote: undefined, properties: keyValues(words) };
  return { remote: splitRemote(first).remote, properties: keyValues(rest) };
}

async function exported(context: Context, parsed: Parsed): Promise<void> {
  const { client, name } = context.target(parsed.arg('instance'));
  const found = await client.instances.get(name, { signal: context.signal });
  const compression = parsed.value('compression');
  await saveBackup(context, found, parsed.maybe('file') ?? `${name}.tar.gz`, {
    instance_only: parsed.flag('instance-only'),
    optimized_storage: parsed.flag('optimized-storage'),
    ...(compression === undefined ? {} : { compression_algorithm: compression }),
  });
}

async function imported(context: Context, parsed: Parsed): Promise<void> {
  const [first = '', ...others] = parsed.rest('file');
  const elsewhere = first.endsWith(':') && others.length > 0;
  const [file = '', given, ...more] = elsewhere ? others : [first, ...others];
  if (more.length > 0) throw new UsageError('Give a file, and the name of the instance where it is to have another');
  const target = context.target(given ?? '');
  const { client, name } = elsewhere ? { client: context.clientOf(first.slice(0, -1)), name: given ?? '' } : target;
  const pool = parsed.value('storage');
  const content = await openInput(file, (total) => context.out.bytes(`Sending ${file}`, total));
  const made = await client.instances.import(content, {
    ...(name === '' ? {} : { name }),
    ...(pool === undefined ? {} : { pool }),
    signal: context.signal,
    onProgress: context.out.operation(`Importing ${file}`),
  });
  context.out.line(made.name);
}

export const backupCommands: readonly Command[] = [
  defineCommand({
    path: ['publish'],
    summary: 'Make an image of a stopped instance or a snapshot',
    args: [
      { name: 'source', summary: 'instance or instance/snapshot' },
      {
        name: 'properties',
        rest: true,
        optional: true,
        summary: 'properties of the image as key=value; before them remote: to put it on another server',
      },
    ],
    options: [
      { name: 'alias', value: 'name', many: true, summary: 'alias to give the image' },
      { name: 'public', summary: 'let everybody use it' },
      { name: 'force', short: 'f', summary: 'stop a running instance for that time' },
      { name: 'expire', value: 'time', summary: 'when it goes by itself: 2027-01-31T12:00:00Z' },
      { name: 'compression', value: 'algorithm', summary: 'gzip, zstd, xz, … or none' },
    ],
    examples: ['keelson publish web --alias web-base os=Debian', 'keelson publish web/clean office: --public'],
    run: publish,
  }),
  defineCommand({
    path: ['export'],
    summary: 'Back an instance up into a file',
    args: [
      { name: 'instance', summary: 'name of the instance' },
      { name: 'file', optional: true, summary: 'where to; default: the name with .tar.gz' },
    ],
    options: [
      { name: 'instance-only', summary: 'without snapshots' },
      { name: 'optimized-storage', summary: "in the driver's own format, for a pool of the same kind" },
      { name: 'compression', value: 'algorithm', summary: 'gzip, zstd, xz, … or none' },
    ],
    run: exported,
  }),
  defineCommand({
    path: ['import'],
    summary: 'Make an instance from a backup file',
    args: [
      {
        name: 'file',
        rest: true,
        summary: 'backup to read, then a name for the instance; default: as in the backup. Before them remote:',
      },
    ],
    options: [{ name: 'storage', short: 's', value: 'pool', summary: 'pool to put it in' }],
    examples: ['keelson import web.tar.gz', 'keelson import office: web.tar.gz web2'],
    run: imported,
  }),
];
