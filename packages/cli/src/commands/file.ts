import { createWriteStream, statSync } from 'node:fs';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type Command, defineCommand, UsageError } from '../command.ts';
import { type Instance, NotFound } from '@keelson/client';
import type { Context } from '../context.ts';
import { openInput } from '../input.ts';

/** `instance/path` taken apart. */
async function place(context: Context, word: string): Promise<{ instance: Instance; path: string }> {
  const at = word.indexOf('/');
  if (at <= 0) throw new UsageError(`"${word}" is not of the form instance/path`);
  const { client, name } = context.target(word.slice(0, at));
  return { instance: await client.instances.get(name), path: word.slice(at) };
}

/** An answer 404 about the place, in words. */
async function there<T>(answer: Promise<T>, instance: Instance, path: string): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof NotFound)
      throw new Error(`There is no ${path} in instance "${instance.name}"`, { cause: error });
    throw error;
  }
}

export const fileCommands: readonly Command[] = [
  defineCommand({
    path: ['file', 'pull'],
    summary: 'Copy a file out of an instance',
    args: [
      { name: 'source', summary: 'instance/path' },
      { name: 'target', summary: 'file here; - for standard output' },
    ],
    run: async (context, parsed) => {
      const { instance, path } = await place(context, parsed.arg('source'));
      const content = await there(instance.files.get(path, { signal: context.signal }), instance, path);
      const target = parsed.arg('target');
      if (target === '-') await pipeline(content, process.stdout, { end: false });
      else await pipeline(content, createWriteStream(target, { mode: content.info.mode }));
    },
  }),
  defineCommand({
    path: ['file', 'push'],
    summary: 'Copy a file into an instance',
    args: [
      { name: 'source', summary: 'file here; - for standard input' },
      { name: 'target', summary: 'instance/path; a path that ends with a slash keeps the name' },
    ],
    options: [
      { name: 'uid', value: 'number', summary: 'owner in the guest' },
      { name: 'gid', value: 'number', summary: 'group in the guest' },
      { name: 'mode', value: 'octal', summary: 'permissions; default: those of the file' },
    ],
    run: async (context, parsed) => {
      const { instance, path } = await place(context, parsed.arg('target'));
      const source = parsed.arg('source');
      const content = await openInput(source);
      const mode = parsed.value('mode') ?? (source === '-' ? '644' : (statSync(source).mode & 0o777).toString(8));
      if (!/^[0-7]{3,4}$/.test(mode)) throw new UsageError(`--mode takes an octal number, not "${mode}"`);
      const target = path.endsWith('/') ? `${path}${basename(source)}` : path;
      const [uid, gid] = [parsed.value('uid') ?? '0', parsed.value('gid') ?? '0'];
      await instance.files.put(target, content, {
        uid: Number(uid),
        gid: Number(gid),
        mode: Number.parseInt(mode, 8),
        signal: context.signal,
      });
    },
  }),
  defineCommand({
    path: ['file', 'list'],
    summary: 'List a folder of an instance',
    args: [{ name: 'place', summary: 'instance/path' }],
    run: async (context, parsed) => {
      const { instance, path } = await place(context, parsed.arg('place'));
      for (const name of await there(instance.files.list(path), instance, path)) context.out.line(name);
    },
  }),
  defineCommand({
    path: ['file', 'delete'],
    summary: 'Delete a file or an empty folder of an instance',
    args: [{ name: 'place', summary: 'instance/path' }],
    run: async (context, parsed) => {
      const { instance, path } = await place(context, parsed.arg('place'));
      await there(instance.files.delete(path), instance, path);
    },
  }),
];
