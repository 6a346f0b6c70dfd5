import { type Command, defineCommand, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { openInput } from '../input.ts';
import { saveBackup } from './backup-file.ts';
import { findVolume, follow, placeOf, pool, volume } from './volume-target.ts';

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
  const chosen = modeOf(parsed);
  const [volumeOnly, refresh] = [parsed.flag('volume-only'), parsed.flag('refresh')];
  const project = parsed.value('target-project');
  if (source.client !== target.client) {
    if (refresh || from.snapshot !== undefined || project !== undefined)
      throw new UsageError('--refresh, --target-project and single snapshots are for copies within one server');
    context.out.progress(`${label} …`);
    const found = await findVolume(context, from.pool, from.name);
    const where = { name: to.name, pool: target.name, to: target.client, volumeOnly };
    await found.copy({ ...where, ...(chosen === undefined ? {} : { mode: chosen }) }, { signal: context.signal });
    context.out.clearProgress();
    return;
  }
  const name = from.snapshot === undefined ? from.name : `${from.name}/${from.snapshot}`;
  // The source is in the project the client works in, also when the copy goes into another.
  const sourceProject = project === undefined ? {} : { project: context.options.project ?? 'default' };
  const json = {
    name: to.name,
    type: 'custom',
    source: { type: 'copy', pool: source.name, name, volume_only: volumeOnly, refresh, ...sourceProject },
  };
  const place = target.client.api.part('storage-pools').part(target.name).part('volumes').part('custom');
  const query = project === undefined ? {} : { query: { project } };
  await follow(context, target.client, label, place.post({ json, ...query, signal: context.signal }));
}

async function move(context: Context, parsed: Parsed): Promise<void> {
  const from = placeOf(parsed.arg('source'));
  const to = placeOf(parsed.arg('target'));
  const [source, target] = [context.target(from.pool), context.target(to.pool)];
  const project = parsed.value('target-project');
  const label = `Moving ${from.name}`;
  const chosen = modeOf(parsed);
  if (source.client !== target.client) {
    if (project !== undefined) throw new UsageError('--target-project is for moves within one server');
    context.out.progress(`${label} …`);
    const found = await findVolume(context, from.pool, from.name);
    const where = { name: to.name, pool: target.name, to: target.client };
    await found.rename({ ...where, ...(chosen === undefined ? {} : { mode: chosen }) }, { signal: context.signal });
    context.out.clearProgress();
    return;
  }
  const elsewhere = target.name !== source.name || project !== undefined;
  const json = {
    name: to.name,
    ...(elsewhere ? { pool: target.name } : {}),
    ...(project === undefined ? {} : { project }),
  };
  const place = source.client.api
    .part('storage-pools')
    .part(source.name)
    .part('volumes')
    .part('custom')
    .part(from.name);
  await follow(context, source.client, label, place.post({ json, signal: context.signal }));
}

async function exported(context: Context, parsed: Parsed): Promise<void> {
  const target = context.target(parsed.arg('pool'));
  const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
  const compression = parsed.value('compression');
  const make = {
    volume_only: parsed.flag('volume-only'),
    optimized_storage: parsed.flag('optimized-storage'),
    ...(compression === undefined ? {} : { compression_algorithm: compression }),
  };
  const backups = target.client.api
    .part('storage-pools')
    .part(target.name)
    .part('volumes')
    .part(found.type)
    .part(found.name)
    .part('backups');
  await saveBackup(context, found, parsed.maybe('file') ?? 'backup.tar.gz', (name) =>
    follow(
      context,
      target.client,
      `Backing up ${found.name}`,
      backups.post({ json: { name, ...make }, signal: context.signal }),
    ),
  );
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
    run: async (context, parsed) => {
      const { client, name } = context.target(parsed.arg('pool'));
      const file = parsed.arg('file');
      const type = parsed.value('type') ?? (file.endsWith('.iso') ? 'iso' : 'backup');
      if (type !== 'iso' && type !== 'backup')
        throw new UsageError(`There is no kind "${type}"; there are backup and iso`);
      const named = parsed.maybe('volume');
      if (type === 'iso' && named === undefined) throw new UsageError('Name the volume');
      const content = await openInput(file);
      const headers: Record<string, string> = { 'Content-Type': 'application/octet-stream' };
      if (named !== undefined) headers['X-LXD-name'] = named;
      if (type === 'iso') headers['X-LXD-type'] = 'iso';
      const place = client.api.part('storage-pools').part(name).part('volumes').part('custom');
      await follow(context, client, `Importing ${file}`, place.post({ raw: content, headers, signal: context.signal }));
    },
  }),
];
