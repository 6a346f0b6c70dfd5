import type { StoragePoolVolumeBackup, StorageVolume as StorageVolumeRecord } from '@keelson/api';
import type { StorageVolume } from '@keelson/client';
import { type Command, defineCommand, keyValues, type Parsed } from '../command.ts';
import type { Context } from '../context.ts';
import { bytes, when } from '../output/format.ts';
import { edited } from './editing.ts';
import { COLUMN_HELP, columnsOf, DEFAULT_COLUMNS, volumeMatcher } from './volume-columns.ts';
import { findVolume, pool, typed, volume } from './volume-target.ts';

const others: readonly Command[] = [
  defineCommand({
    path: ['storage', 'volume', 'rename'],
    summary: 'Rename a custom volume',
    args: [pool, volume, { name: 'new-name', summary: 'its new name' }],
    run: async (context, parsed) =>
      (await findVolume(context, parsed.arg('pool'), parsed.arg('volume'))).rename(parsed.arg('new-name')),
  }),
  defineCommand({
    path: ['storage', 'volume', 'get'],
    summary: 'Show one setting of a volume',
    args: [pool, volume, { name: 'key', summary: 'name of the setting' }],
    run: async (context, parsed) => {
      const { config } = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
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
    summary: 'Edit a volume as YAML, in $EDITOR or from standard input',
    args: [pool, volume],
    run: async (context, parsed) => {
      const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
      const { config, description } = found;
      const body = await edited({ config, description });
      if (body !== undefined) await found.put(body, { wait: true });
    },
  }),
];

async function list(context: Context, parsed: Parsed): Promise<void> {
  const { client, name } = context.target(parsed.arg('pool'));
  const columns = parsed.value('columns') ?? DEFAULT_COLUMNS;
  const matches = volumeMatcher(parsed.rest('filter'));
  const { volumes } = await client.storagePools.get(name);
  const found = (await volumes.all({ recursion: 1 })).filter(({ record }) => matches(record as StorageVolumeRecord));
  const withUse = /(^|,)[A-Za-z]*U/.test(columns);
  const shown = await Promise.all(
    found.map(async (one) => {
      const use = withUse && !one.name.includes('/') ? await one.state({ signal: context.signal }) : undefined;
      return { ...(one.record as StorageVolumeRecord), used: use?.usage?.used };
    }),
  );
  const key = (one: StorageVolumeRecord): string => `${one.type}/${one.name}`;
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
    options: [{ name: 'columns', short: 'c', value: 'columns', summary: `letters and settings: ${COLUMN_HELP}` }],
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
    summary: 'Delete a volume that nothing uses, with its snapshots',
    args: [pool, volume],
    run: async (context, parsed) => (await findVolume(context, parsed.arg('pool'), parsed.arg('volume'))).delete(),
  }),
  defineCommand({
    path: ['storage', 'volume', 'show'],
    summary: 'Show a volume',
    args: [pool, volume],
    run: async (context, parsed) =>
      context.out.record((await findVolume(context, parsed.arg('pool'), parsed.arg('volume'))).record),
  }),
  defineCommand({
    path: ['storage', 'volume', 'set'],
    summary: 'Change settings of a volume',
    args: [pool, volume, { name: 'settings', rest: true, summary: 'key=value; an empty value removes one' }],
    run: async (context, parsed) => {
      const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
      const merged = { ...found.config, ...keyValues(parsed.rest('settings')) };
      found.config = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== ''));
      await found.save({ wait: true });
    },
  }),
];

export const volumeCommands: readonly Command[] = [...volumes, ...others];
