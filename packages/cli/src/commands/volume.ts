import { type Command, defineCommand, keyValues, UsageError } from '../command.ts';
import { saveBackup } from './backup-file.ts';
import type { Context } from '../context.ts';
import { openInput } from '../input.ts';
import { edited } from './editing.ts';
import { findVolume, pool, typed, volume } from './volume-target.ts';

async function copy(
  context: Context,
  source: string,
  target: string,
  options: { volumeOnly: boolean; refresh: boolean },
): Promise<void> {
  const [fromPool = '', from] = split(source);
  const [toPool = '', to] = split(target);
  const { client, name: poolName } = context.target(toPool);
  await (await client.storagePools.get(poolName)).volumes.create(
    {
      name: to,
      type: 'custom',
      source: {
        type: 'copy',
        pool: context.target(fromPool).name,
        name: from,
        volume_only: options.volumeOnly,
        refresh: options.refresh,
      },
    },
    { signal: context.signal },
  );
}

function split(word: string): [string, string] {
  const at = word.lastIndexOf('/');
  if (at <= 0) throw new UsageError(`"${word}" is not of the form pool/volume`);
  return [word.slice(0, at), word.slice(at + 1)];
}

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

const volumes: readonly Command[] = [
  defineCommand({
    path: ['storage', 'volume', 'list'],
    summary: 'List the volumes of a pool',
    args: [pool],
    run: async (context, parsed) => {
      const { client, name } = context.target(parsed.arg('pool'));
      const found = await (await client.storagePools.get(name)).volumes.all({ recursion: 1 });
      context.out.list(
        [
          { title: 'TYPE', text: (one) => one.type },
          { title: 'NAME', text: (one) => one.name },
          { title: 'DESCRIPTION', text: (one) => one.description },
          { title: 'CONTENT-TYPE', text: (one) => one.content_type },
          { title: 'USED BY', text: (one) => String(one.used_by?.length ?? 0) },
        ],
        found,
      );
    },
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
    path: ['storage', 'volume', 'copy'],
    summary: 'Copy a custom volume, with its snapshots, also between pools',
    args: [
      { name: 'source', summary: 'pool/volume or pool/volume@snapshot as the server names it' },
      { name: 'target', summary: 'pool/volume' },
    ],
    options: [
      { name: 'volume-only', summary: 'without snapshots' },
      { name: 'refresh', summary: 'bring an existing copy up to date' },
    ],
    run: (context, parsed) =>
      copy(context, parsed.arg('source'), parsed.arg('target'), {
        volumeOnly: parsed.flag('volume-only'),
        refresh: parsed.flag('refresh'),
      }),
  }),
  defineCommand({
    path: ['storage', 'volume', 'move'],
    summary: 'Move a custom volume to another pool or name',
    args: [
      { name: 'source', summary: 'pool/volume' },
      { name: 'target', summary: 'pool/volume' },
    ],
    run: async (context, parsed) => {
      const [fromPool, from] = split(parsed.arg('source'));
      const [toPool, to] = split(parsed.arg('target'));
      const move = { name: to, ...(toPool === fromPool ? {} : { pool: context.target(toPool).name }) };
      await (await findVolume(context, fromPool, from)).rename(move, { signal: context.signal });
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
  defineCommand({
    path: ['storage', 'volume', 'export'],
    summary: 'Back a custom volume up into a file',
    args: [pool, volume, { name: 'file', summary: 'where to' }],
    options: [{ name: 'volume-only', summary: 'without snapshots' }],
    run: async (context, parsed) => {
      const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
      const make = { volume_only: parsed.flag('volume-only') };
      await saveBackup(context, found, parsed.arg('file'), (name) =>
        found.backups.create({ name, ...make }, { signal: context.signal }),
      );
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'import'],
    summary: 'Make a custom volume from a backup file',
    args: [pool, { name: 'file', summary: 'backup to read' }, { name: 'volume', summary: 'name of the volume' }],
    run: async (context, parsed) => {
      const { client, name } = context.target(parsed.arg('pool'));
      const content = await openInput(parsed.arg('file'));
      await (await client.storagePools.get(name)).volumes.import(parsed.arg('volume'), content, {
        signal: context.signal,
      });
    },
  }),
];

export const volumeCommands: readonly Command[] = [...volumes, ...others];
