import { createReadStream, createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { StorageVolume } from '@keelson/client';
import { type Command, defineCommand, keyValues, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { when } from '../output/format.ts';

const pool = { name: 'pool', summary: 'name of the pool' } as const;
const volume = { name: 'volume', summary: 'name of the volume; type/name for one that is not custom' } as const;
const snapshot = { name: 'snapshot', summary: 'name of the snapshot' } as const;

/** `type/name`, or the name of a custom volume. */
function typed(word: string): { type: string; name: string } {
  const at = word.indexOf('/');
  return at < 0 ? { type: 'custom', name: word } : { type: word.slice(0, at), name: word.slice(at + 1) };
}

async function find(context: Context, poolWord: string, word: string): Promise<StorageVolume> {
  const target = context.target(poolWord);
  const { type, name } = typed(word);
  return (await target.client.storagePools.get(target.name)).volumes.get(type, name);
}

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
      await (await find(context, fromPool, from)).rename(move, { signal: context.signal });
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'delete'],
    summary: 'Delete a volume that nothing uses, with its snapshots',
    args: [pool, volume],
    run: async (context, parsed) => (await find(context, parsed.arg('pool'), parsed.arg('volume'))).delete(),
  }),
  defineCommand({
    path: ['storage', 'volume', 'show'],
    summary: 'Show a volume',
    args: [pool, volume],
    run: async (context, parsed) =>
      context.out.record((await find(context, parsed.arg('pool'), parsed.arg('volume'))).record),
  }),
  defineCommand({
    path: ['storage', 'volume', 'set'],
    summary: 'Change settings of a volume',
    args: [pool, volume, { name: 'settings', rest: true, summary: 'key=value; an empty value removes one' }],
    run: async (context, parsed) => {
      const found = await find(context, parsed.arg('pool'), parsed.arg('volume'));
      const merged = { ...found.config, ...keyValues(parsed.rest('settings')) };
      found.config = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== ''));
      await found.save();
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'export'],
    summary: 'Back a custom volume up into a file',
    args: [pool, volume, { name: 'file', summary: 'where to' }],
    options: [{ name: 'volume-only', summary: 'without snapshots' }],
    run: async (context, parsed) => {
      const found = await find(context, parsed.arg('pool'), parsed.arg('volume'));
      const name = `export-${Date.now()}`;
      context.out.progress(`Backing up ${found.name} …`);
      await found.backups.create({ name, volume_only: parsed.flag('volume-only') }, { signal: context.signal });
      try {
        await pipeline(
          await found.backups.export(name, { signal: context.signal }),
          createWriteStream(parsed.arg('file')),
        );
      } finally {
        await found.backups.delete(name);
      }
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'import'],
    summary: 'Make a custom volume from a backup file',
    args: [pool, { name: 'file', summary: 'backup to read' }, { name: 'volume', summary: 'name of the volume' }],
    run: async (context, parsed) => {
      const { client, name } = context.target(parsed.arg('pool'));
      const content = createReadStream(parsed.arg('file'));
      await (await client.storagePools.get(name)).volumes.import(parsed.arg('volume'), content, {
        signal: context.signal,
      });
    },
  }),
];

const snapshots: readonly Command[] = [
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'create'],
    summary: 'Take a snapshot of a custom volume',
    args: [pool, volume, { ...snapshot, optional: true }],
    run: async (context, parsed) => {
      const name = parsed.maybe('snapshot');
      await (await find(context, parsed.arg('pool'), parsed.arg('volume'))).snapshots.create(
        name === undefined ? {} : { name },
      );
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'list'],
    summary: 'List the snapshots of a volume',
    args: [pool, volume],
    run: async (context, parsed) => {
      const found = await (await find(context, parsed.arg('pool'), parsed.arg('volume'))).snapshots.all();
      context.out.list(
        [
          { title: 'NAME', text: (one) => one.name.split('/').at(-1) ?? one.name },
          { title: 'TAKEN', text: (one) => when(one.created_at) },
          { title: 'EXPIRES', text: (one) => when(one.expires_at ?? '') },
        ],
        found,
      );
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'restore'],
    summary: 'Bring a volume back to a snapshot',
    args: [pool, volume, snapshot],
    run: async (context, parsed) =>
      (await find(context, parsed.arg('pool'), parsed.arg('volume'))).restore(parsed.arg('snapshot')),
  }),
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'delete'],
    summary: 'Delete a snapshot of a volume',
    args: [pool, volume, snapshot],
    run: async (context, parsed) =>
      (await find(context, parsed.arg('pool'), parsed.arg('volume'))).snapshots.delete(parsed.arg('snapshot')),
  }),
];

export const volumeCommands: readonly Command[] = [...volumes, ...snapshots];
