import { createWriteStream } from 'node:fs';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type Image, NotFound } from '@keelson/client';
import { type Command, defineCommand, keyValues, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { counted, openInput } from '../input.ts';
import { bytes, when } from '../output/format.ts';
import { remoteOf, splitRemote } from '../remotes.ts';
import { edited } from './editing.ts';

/** Image by alias, else by fingerprint or its beginning. */
async function find(context: Context, word: string): Promise<Image> {
  const { client, name } = context.target(word);
  try {
    return await client.images.getByAlias(name);
  } catch (error) {
    if (!(error instanceof NotFound)) throw error;
    return client.images.get(name);
  }
}

const image = { name: 'image', summary: 'alias or fingerprint' } as const;

async function importImage(
  context: Context,
  files: readonly string[],
  options: { aliases: readonly string[]; public: boolean; properties: Record<string, string>; remote: string },
): Promise<void> {
  const [first, second, ...more] = files;
  if (first === undefined || more.length > 0)
    throw new UsageError('Give one image file, or its metadata and its root file system');
  const client = context.clientOf(options.remote);
  const label = `Sending ${basename(second ?? first)}`;
  const content = await openInput(second ?? first, (total) => context.out.bytes(label, total));
  const metadata = second === undefined ? undefined : await openInput(first);
  context.out.progress(`${label} …`);
  const made = await client.images.create(content, {
    ...(metadata === undefined ? {} : { metadata }),
    filename: basename(second ?? first),
    public: options.public,
    properties: options.properties,
    signal: context.signal,
    onProgress: context.out.operation('Importing the image'),
  });
  for (const alias of options.aliases) await made.addAlias(alias);
  context.out.line(made.fingerprint);
}

async function exportImage(context: Context, word: string, target: string): Promise<void> {
  const found = await find(context, word);
  const download = await found.export({ signal: context.signal });
  const file =
    target ||
    `${found.fingerprint}.${download.headers['content-type']?.startsWith('multipart/') ? 'multipart' : 'tar'}`;
  await pipeline(download, counted(context.out.bytes(`Writing ${file}`, download.size)), createWriteStream(file));
  context.out.line(file);
}

const COPY_MODES = ['pull', 'relay'] as const;

/** From an image server, or from one server to another. */
async function copy(context: Context, parsed: Parsed): Promise<void> {
  const { signal, out } = context;
  const source = splitRemote(parsed.arg('source'));
  const to = parsed.arg('target');
  if (!to.endsWith(':')) throw new UsageError(`"${to}" is no remote; write it with a colon, as in "local:"`);
  const mode = COPY_MODES.find((one) => one === parsed.value('mode'));
  if (parsed.value('mode') !== undefined && mode === undefined)
    throw new UsageError(`There is no mode "${parsed.value('mode')}"; there are ${COPY_MODES.join(', ')}`);
  const target = context.clientOf(to.slice(0, -1), parsed.value('target-project'));
  const label = `Copying image ${source.name}`;
  out.progress(`${label} …`);
  const options = { wait: true, autoUpdate: parsed.flag('auto-update'), signal, onProgress: out.operation(label) };
  const open = parsed.flag('public');
  const from = remoteOf(source.remote);
  const aliases = new Set(parsed.values('alias'));
  let made: Image | undefined;
  if (from.protocol === 'simplestreams')
    made = await target.images.createFromSimplestreams(from.address, source.name, { ...options, public: open });
  else {
    const found = await find(context, parsed.arg('source'));
    made = await found.copy(target, { ...options, public: open, ...(mode === undefined ? {} : { mode }) });
    if (parsed.flag('copy-aliases')) for (const { name } of found.aliases) aliases.add(name);
  }
  for (const alias of aliases) await made?.addAlias(alias);
  out.line(made?.fingerprint ?? '');
}

const basics: readonly Command[] = [
  defineCommand({
    path: ['image', 'list'],
    summary: 'List images',
    args: [{ name: 'remote', optional: true, summary: 'remote:' }],
    run: async (context, parsed) => {
      const client = context.clientOf(splitRemote(parsed.maybe('remote') ?? '').remote);
      context.out.list(
        [
          { title: 'ALIAS', text: (one) => one.aliases.map(({ name }) => name).join('\n') },
          { title: 'FINGERPRINT', text: (one) => one.fingerprint.slice(0, 12) },
          { title: 'PUBLIC', text: (one) => (one.public ? 'yes' : 'no') },
          { title: 'DESCRIPTION', text: (one) => one.properties['description'] ?? '' },
          { title: 'ARCHITECTURE', text: (one) => one.architecture },
          { title: 'TYPE', text: (one) => one.type.toUpperCase() },
          { title: 'SIZE', text: (one) => bytes(one.size) },
          { title: 'UPLOADED', text: (one) => when(one.uploaded_at) },
        ],
        await client.images.all({ recursion: 1 }),
      );
    },
  }),
  defineCommand({
    path: ['image', 'import'],
    summary: 'Import an image from files: a tarball, or metadata and root file system',
    args: [{ name: 'file', rest: true, summary: 'file; of a split image metadata first' }],
    options: [
      { name: 'alias', value: 'name', many: true, summary: 'alias to give it' },
      { name: 'public', summary: 'let everybody use it' },
      { name: 'property', value: 'key=value', many: true, summary: 'property to set' },
      { name: 'remote', value: 'name', summary: 'where to import it' },
    ],
    run: (context, parsed) =>
      importImage(context, parsed.rest('file'), {
        aliases: parsed.values('alias'),
        public: parsed.flag('public'),
        properties: keyValues(parsed.values('property')),
        remote: parsed.value('remote') ?? '',
      }),
  }),
  defineCommand({
    path: ['image', 'copy'],
    summary: 'Copy an image to a server, from another or from an image server',
    args: [
      { name: 'source', summary: 'image or remote:image' },
      { name: 'target', summary: 'remote: to copy it to' },
    ],
    options: [
      { name: 'alias', value: 'name', many: true, summary: 'alias to give the copy' },
      { name: 'public', summary: 'let everybody use it' },
      { name: 'auto-update', summary: 'keep it as its source is' },
      { name: 'copy-aliases', summary: 'give the copy the aliases of its source' },
      { name: 'mode', value: 'mode', summary: 'pull or relay; default: the most direct' },
      { name: 'target-project', value: 'name', summary: 'project to put it in' },
    ],
    examples: ['keelson image copy images:debian/12 local: --alias debian'],
    run: copy,
  }),
  defineCommand({
    path: ['image', 'export'],
    summary: 'Write an image to a file',
    args: [image, { name: 'file', optional: true, summary: 'where to' }],
    run: (context, parsed) => exportImage(context, parsed.arg('image'), parsed.maybe('file') ?? ''),
  }),
  defineCommand({
    path: ['image', 'show'],
    summary: 'Show an image',
    args: [image],
    run: async (context, parsed) => context.out.record((await find(context, parsed.arg('image'))).record),
  }),
  defineCommand({
    path: ['image', 'edit'],
    summary: 'Edit an image as YAML, in $EDITOR or from standard input',
    args: [image],
    run: async (context, parsed) => {
      const found = await find(context, parsed.arg('image'));
      const { auto_update, properties, expires_at, profiles, public: open } = found;
      const body = await edited({ auto_update, properties, public: open, expires_at, profiles });
      if (body !== undefined) await found.put(body, { wait: true });
    },
  }),
  defineCommand({
    path: ['image', 'delete'],
    summary: 'Delete images',
    args: [{ name: 'image', rest: true, summary: 'aliases or fingerprints' }],
    run: async (context, parsed) => {
      for (const word of parsed.rest('image')) await (await find(context, word)).delete();
    },
  }),
];

const aliases: readonly Command[] = [
  defineCommand({
    path: ['image', 'alias', 'list'],
    summary: 'List aliases of images',
    args: [{ name: 'remote', optional: true, summary: 'remote:' }],
    run: async (context, parsed) => {
      const { client } = context.target(parsed.maybe('remote') ?? '');
      const images = await client.images.all({ recursion: 1 });
      const rows = images.flatMap((one) => one.aliases.map((alias) => ({ ...alias, target: one.fingerprint })));
      context.out.list(
        [
          { title: 'ALIAS', text: ({ name }) => name },
          { title: 'FINGERPRINT', text: ({ target }) => target.slice(0, 12) },
          { title: 'DESCRIPTION', text: ({ description }) => description },
        ],
        rows,
      );
    },
  }),
  defineCommand({
    path: ['image', 'alias', 'create'],
    summary: 'Give an image another name',
    args: [{ name: 'alias', summary: 'new name' }, image],
    run: async (context, parsed) => (await find(context, parsed.arg('image'))).addAlias(parsed.arg('alias')),
  }),
  defineCommand({
    path: ['image', 'alias', 'delete'],
    summary: 'Delete an alias; the image stays',
    args: [{ name: 'alias', summary: 'name to delete' }],
    run: async (context, parsed) =>
      (await find(context, parsed.arg('alias'))).deleteAlias(splitRemote(parsed.arg('alias')).name),
  }),
];

export const imageCommands: readonly Command[] = [...basics, ...aliases];
