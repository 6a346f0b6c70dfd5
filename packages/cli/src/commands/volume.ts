import type {
  StoragePoolVolumeBackup,
  StorageVolume as StorageVolumeRecord,
  StorageVolumeSnapshot,
} from '@keelson/api';
import type { StorageVolume } from '@keelson/client';
import { type Command, defineCommand, keyValues, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { bytes, when } from '../output/format.ts';
import { edited } from './editing.ts';
import { settingsOf } from './settings.ts';
import { NEVER } from './times.ts';
import { COLUMN_HELP, columnsOf, DEFAULT_COLUMNS, volumeMatcher } from './volume-columns.ts';
import { findPart, findVolume, partsOf, pool, typed, volume, volumeOrSnapshot } from './volume-target.ts';

async function rename(context: Context, parsed: Parsed): Promise<void> {
  const { found, snapshot } = await findPart(context, parsed.arg('pool'), parsed.arg('volume'));
  const word = parsed.arg('new-name');
  if (snapshot === undefined) return found.rename(word);
  const to = word.includes('/') ? partsOf(word) : { type: found.type, name: found.name, snapshot: word };
  if (to.type !== found.type || to.name !== found.name || to.snapshot === undefined)
    throw new UsageError('A snapshot stays with its volume: give volume/new-name, or the new name alone');
  await found.snapshots.rename(snapshot, to.snapshot);
}

async function edit(context: Context, parsed: Parsed): Promise<void> {
  const { found, snapshot } = await findPart(context, parsed.arg('pool'), parsed.arg('volume'));
  if (snapshot === undefined) {
    const { config, description } = found;
    const body = await edited({ config, description });
    if (body !== undefined) await found.put(body, { wait: true });
    return;
  }
  const { description, expires_at } = await found.snapshots.get(snapshot);
  const body = await edited({ description, expires_at: expires_at ?? NEVER });
  if (body !== undefined) await found.snapshots.update(snapshot, body);
}

/** The record of a volume, or of one of its snapshots. */
async function recordOf(
  context: Context,
  parsed: Parsed,
): Promise<Partial<StorageVolumeRecord> | StorageVolumeSnapshot> {
  const { found, snapshot } = await findPart(context, parsed.arg('pool'), parsed.arg('volume'));
  return snapshot === undefined ? found.record : found.snapshots.get(snapshot);
}

const others: readonly Command[] = [
  defineCommand({
    path: ['storage', 'volume', 'rename'],
    summary: 'Rename a custom volume or a snapshot of it',
    args: [pool, volumeOrSnapshot, { name: 'new-name', summary: 'its new name' }],
    run: rename,
  }),
  defineCommand({
    path: ['storage', 'volume', 'get'],
    summary: 'Show one setting of a volume',
    args: [pool, volumeOrSnapshot, { name: 'key', summary: 'name of the setting' }],
    run: async (context, parsed) => {
      const config: Readonly<Record<string, string>> = (await recordOf(context, parsed)).config ?? {};
      context.out.line(config[parsed.arg('key')] ?? '');
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'unset'],
    summary: 'Remove a setting of a volume',
    args: [pool, volume, { name: 'key', summary: 'name of the setting' }],
    run: async (context, parsed) => {
      const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
      const { [parsed.arg('key')]: _gone, ...rest } = found.config;
      found.config = rest;
      await found.save({ wait: true });
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'edit'],
    summary: 'Edit a volume or a snapshot of it as YAML, in $EDITOR or from standard input',
    args: [pool, volumeOrSnapshot],
    run: edit,
  }),
];

async function list(context: Context, parsed: Parsed): Promise<void> {
  const { client, name } = context.target(parsed.arg('pool'));
  const allProjects = parsed.flag('all-projects');
  const columns = parsed.value('columns') ?? `${allProjects ? 'e' : ''}${DEFAULT_COLUMNS}`;
  const matches = volumeMatcher(parsed.rest('filter'));
  const { volumes } = await client.storagePools.get(name);
  const scope = allProjects ? { allProjects, recursion: 1 as const } : { recursion: 1 as const };
  const found = (await volumes.all(scope)).filter(({ record }) => matches(record as StorageVolumeRecord));
  const withUse = /(^|,)[A-Za-z]*U/.test(columns);
  const shown = await Promise.all(
    found.map(async (one) => {
      const use = withUse && !one.name.includes('/') ? await one.state({ signal: context.signal }) : undefined;
      return { ...(one.record as StorageVolumeRecord), used: use?.usage?.used };
    }),
  );
  const key = (one: StorageVolumeRecord): string => `${one.project}/${one.type}/${one.name}`;
  context.out.list(
    columnsOf(columns),
    shown.sort((a, b) => (key(a) < key(b) ? -1 : 1)),
  );
}

async function info(context: Context, parsed: Parsed): Promise<void> {
  const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
  const { usage } = await found.state({ signal: context.signal });
  const snapshots = await found.snapshots.all({ signal: context.signal });
  const backups = found.type === 'custom' ? await backupsOf(found, context.signal) : [];
  const size = (value: number): string | number => (parsed.flag('bytes') ? value : bytes(value));
  context.out.record({
    name: found.name,
    type: found.type,
    'content type': found.content_type,
    ...(found.description === '' ? {} : { description: found.description }),
    created: when(found.created_at),
    ...(usage ? { usage: size(usage.used ?? 0), ...(usage.total > 0 ? { total: size(usage.total) } : {}) } : {}),
    'used by': found.used_by ?? [],
    snapshots: snapshots.map((one) => ({
      name: one.name.split('/').at(-1),
      ...(one.description === '' ? {} : { description: one.description }),
      taken: when(one.created_at),
      ...(when(one.expires_at ?? '') === '' ? {} : { expires: when(one.expires_at ?? '') }),
    })),
    backups: backups.map((one) => ({ name: one.name, taken: when(one.created_at), optimized: one.optimized_storage })),
  });
}

async function backupsOf(found: StorageVolume, signal: AbortSignal): Promise<StoragePoolVolumeBackup[]> {
  const names = await found.backups.all({ signal });
  return Promise.all(names.map((name) => found.backups.get(name, { signal })));
}

const volumes: readonly Command[] = [
  defineCommand({
    path: ['storage', 'volume', 'list'],
    summary: 'List the volumes of a pool',
    args: [
      pool,
      {
        name: 'filter',
        rest: true,
        optional: true,
        summary: 'part of a name, or key=value: type, name, content_type, project, a setting such as user.owner',
      },
    ],
    options: [
      { name: 'all-projects', summary: 'volumes of all projects' },
      { name: 'columns', short: 'c', value: 'columns', summary: `letters and settings: ${COLUMN_HELP}` },
    ],
    examples: [
      'keelson storage volume list default type=custom',
      'keelson storage volume list default -c nuU,user.owner',
    ],
    run: list,
  }),
  defineCommand({
    path: ['storage', 'volume', 'info'],
    summary: 'Show the use of a volume, its snapshots and backups',
    args: [pool, volume],
    options: [{ name: 'bytes', summary: 'sizes in bytes' }],
    run: info,
  }),
  defineCommand({
    path: ['storage', 'volume', 'create'],
    summary: 'Create a custom volume',
    args: [pool, volume, { name: 'settings', rest: true, optional: true, summary: 'key=value' }],
    options: [{ name: 'type', value: 'content', summary: 'filesystem (default) or block' }],
    run: async (context, parsed) => {
      const { client, name } = context.target(parsed.arg('pool'));
      const content_type = parsed.value('type') ?? 'filesystem';
      const config = keyValues(parsed.rest('settings'));
      await (await client.storagePools.get(name)).volumes.create({
        ...typed(parsed.arg('volume')),
        content_type,
        config,
      });
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'delete'],
    summary: 'Delete a volume that nothing uses, with its snapshots, or one snapshot',
    args: [pool, volumeOrSnapshot],
    run: async (context, parsed) => {
      const { found, snapshot } = await findPart(context, parsed.arg('pool'), parsed.arg('volume'));
      await (snapshot === undefined ? found.delete() : found.snapshots.delete(snapshot));
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'show'],
    summary: 'Show a volume or a snapshot of it',
    args: [pool, volumeOrSnapshot],
    run: async (context, parsed) => context.out.record(await recordOf(context, parsed)),
  }),
  defineCommand({
    path: ['storage', 'volume', 'set'],
    summary: 'Change settings of a volume',
    args: [
      pool,
      volume,
      {
        name: 'settings',
        rest: true,
        summary: 'key=value, where an empty value removes one; or one key and one value',
      },
    ],
    run: async (context, parsed) => {
      const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
      const merged = { ...found.config, ...settingsOf(parsed) };
      found.config = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== ''));
      await found.save({ wait: true });
    },
  }),
];

export const volumeCommands: readonly Command[] = [...volumes, ...others];
