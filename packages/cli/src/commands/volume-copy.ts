import { type Command, defineCommand, type Parsed, UsageError } from '../command.ts';
import type { VolumeMove } from '@keelson/client';
import { type Context, sameServer, type Target } from '../context.ts';
import { openInput } from '../input.ts';
import { saveBackup } from './backup-file.ts';
import { findVolume, placeOf, pool, volume } from './volume-target.ts';

const MODES = ['pull', 'push', 'relay'] as const;
/** The option that names the way between servers. */
export const mode = {
  name: 'mode',
  value: 'mode',
  summary: 'between servers: pull, push or relay; default: the most direct',
} as const;
const targetProject = { name: 'target-project', value: 'project', summary: 'project to put it in' } as const;

/** @throws UsageError */
export function modeOf(parsed: Parsed): (typeof MODES)[number] | undefined {
  const given = parsed.value('mode');
  const known = MODES.find((one) => one === given);
  if (given !== undefined && known === undefined)
    throw new UsageError(`There is no mode "${given}"; there are ${MODES.join(', ')}`);
  return known;
}

async function copy(context: Context, parsed: Parsed): Promise<void> {
  const from = placeOf(parsed.arg('source'));
  const to = placeOf(parsed.arg('target'));
  const [source, target] = [context.target(from.pool), context.target(to.pool)];
  const label = `Copying ${from.name}`;
  context.out.progress(`${label} …`);
  const found = await findVolume(context, from.pool, from.name);
  const where = { ...wayOf(parsed, { source, target }), name: to.name, pool: target.name };
  const { snapshot } = from;
  const refresh = parsed.flag('refresh');
  const what = { ...(refresh ? { refresh } : {}), ...(snapshot === undefined ? {} : { snapshot }) };
  const onProgress = context.out.copying(label);
  const { signal } = context;
  await found.copy({ ...where, ...what, volumeOnly: parsed.flag('volume-only'), onProgress }, { signal });
  context.out.clearProgress();
}

type Ends = { readonly source: Target; readonly target: Target };

/** Within a server nothing goes over the network, whatever `--mode` says. */
function wayOf(parsed: Parsed, { source, target }: Ends): Pick<VolumeMove, 'to' | 'mode' | 'project'> {
  const [chosen, project] = [modeOf(parsed), parsed.value('target-project')];
  const within = sameServer(source, target);
  return {
    to: target.client,
    ...(within || chosen === undefined ? {} : { mode: chosen }),
    ...(project === undefined ? {} : { project }),
  };
}

async function move(context: Context, parsed: Parsed): Promise<void> {
  const from = placeOf(parsed.arg('source'));
  const to = placeOf(parsed.arg('target'));
  if (from.snapshot !== undefined) throw new UsageError('A snapshot does not move; copy it to make a volume of it');
  const [source, target] = [context.target(from.pool), context.target(to.pool)];
  const label = `Moving ${from.name}`;
  context.out.progress(`${label} …`);
  const found = await findVolume(context, from.pool, from.name);
  const { to: client, ...way } = wayOf(parsed, { source, target });
  const within = sameServer(source, target);
  const { signal } = context;
  const where = {
    name: to.name,
    // A pool makes it a move although the name alone would do.
    ...(within && target.name === source.name && way.project === undefined ? {} : { pool: target.name }),
    ...(within || client === undefined ? {} : { to: client }),
  };
  await found.rename({ ...where, ...way, onProgress: context.out.copying(label) }, { signal });
  context.out.clearProgress();
}

async function exported(context: Context, parsed: Parsed): Promise<void> {
  const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
  const compression = parsed.value('compression');
  const make = {
    volume_only: parsed.flag('volume-only'),
    optimized_storage: parsed.flag('optimized-storage'),
    ...(compression === undefined ? {} : { compression_algorithm: compression }),
  };
  await saveBackup(context, found, parsed.maybe('file') ?? 'backup.tar.gz', make);
}

async function imported(context: Context, parsed: Parsed): Promise<void> {
  const { client, name: pool } = context.target(parsed.arg('pool'));
  const file = parsed.arg('file');
  const type = parsed.value('type') ?? (file.endsWith('.iso') ? 'iso' : 'backup');
  if (type !== 'iso' && type !== 'backup') throw new UsageError(`There is no kind "${type}"; there are backup and iso`);
  const name = parsed.maybe('volume');
  if (type === 'iso' && name === undefined) throw new UsageError('Name the volume');
  const content = await openInput(file, (total) => context.out.bytes(`Sending ${file}`, total));
  const { volumes } = await client.storagePools.get(pool);
  const onProgress = context.out.operation(`Importing ${file}`);
  await volumes.import(name, content, { type, signal: context.signal, onProgress });
  context.out.clearProgress();
}

export const volumeCopyCommands: readonly Command[] = [
  defineCommand({
    path: ['storage', 'volume', 'copy'],
    summary: 'Copy a custom volume with its snapshots, also between pools, projects and servers',
    args: [
      { name: 'source', summary: 'pool/volume, or pool/volume/snapshot for that state alone' },
      { name: 'target', summary: 'pool/volume' },
    ],
    options: [
      { name: 'volume-only', summary: 'without snapshots' },
      { name: 'refresh', summary: 'bring an existing copy up to date' },
      targetProject,
      mode,
    ],
    examples: [
      'keelson storage volume copy default/data backup/data',
      'keelson storage volume copy default/data office:default/data',
      'keelson storage volume copy default/data/before-upgrade office:default/old',
    ],
    run: copy,
  }),
  defineCommand({
    path: ['storage', 'volume', 'move'],
    summary: 'Move a custom volume to another name, pool, project or server',
    args: [
      { name: 'source', summary: 'pool/volume' },
      { name: 'target', summary: 'pool/volume' },
    ],
    options: [targetProject, mode],
    run: move,
  }),
  defineCommand({
    path: ['storage', 'volume', 'export'],
    summary: 'Back a custom volume up into a file',
    args: [pool, volume, { name: 'file', optional: true, summary: 'where to; default: backup.tar.gz' }],
    options: [
      { name: 'volume-only', summary: 'without snapshots' },
      { name: 'optimized-storage', summary: "in the driver's own format, for a pool of the same kind" },
      { name: 'compression', value: 'algorithm', summary: 'gzip, zstd, xz, … or none' },
    ],
    run: exported,
  }),
  defineCommand({
    path: ['storage', 'volume', 'import'],
    summary: 'Make a custom volume from a backup file or the image of a disc',
    args: [
      pool,
      { name: 'file', summary: 'backup to read, or a file that ends in .iso' },
      { name: 'volume', optional: true, summary: 'name of the volume; default: as in the backup' },
    ],
    options: [{ name: 'type', value: 'kind', summary: 'backup or iso; default: as the file is called' }],
    run: imported,
  }),
];
