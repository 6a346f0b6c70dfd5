import { type FileHandle, open } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Client, exportToFile } from './index.ts';
import { type Got, TinyServer } from './testing/tiny-server.ts';

const WAIT = '?timeout=60';

describe('waiting', () => {
  let tiny: TinyServer;
  let client: Client;
  beforeEach(async () => {
    tiny = await TinyServer.start();
    client = tiny.client();
  });
  afterEach(() => tiny[Symbol.asyncDispose]());

  it('200 operations at once, each with its own end; no connection is left', async () => {
    const ids = Array.from({ length: 200 }, (_, index) => `o${index}`);
    let asked = 0;
    let all: () => void = () => undefined;
    const everyone = new Promise<void>((resolve) => (all = resolve));
    const reply = async ({ url }: Got): Promise<{ metadata: object }> => {
      asked += 1;
      if (asked === ids.length) all();
      await everyone;
      return { metadata: { id: url.split('/')[3], status_code: 200 } };
    };
    for (const id of ids) tiny.reply(`GET /1.0/operations/${id}/wait${WAIT}`, reply);
    const ended = await Promise.all(ids.map((id) => client.operations.waitForOperation(id)));
    expect(ended.map(({ id }) => id)).toEqual(ids);
    expect(asked).toBe(ids.length);
    await client.close();
    while (tiny.connections > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(tiny.connections).toBe(0);
  });

  it('an error in place of the record, as Incus answers, is looked up', async () => {
    const refused = JSON.stringify({ type: 'error', error: 'No space left', error_code: 500, metadata: null });
    tiny.reply(`GET /1.0/operations/o1/wait${WAIT}`, { status: 200, body: refused });
    const record = { id: 'o1', status_code: 400, err: 'No space left', status: 'Failure', description: 'Making it' };
    tiny.reply('GET /1.0/operations/o1', { metadata: record });
    const waited = client.operations.waitForOperation('o1');
    await expect(waited).rejects.toMatchObject({ name: 'APIException', status: 400, operation: 'o1' });
    tiny.reply('GET /1.0/operations/o1', { metadata: { ...record, status_code: 103 } });
    // It still runs: the error was about something else, and is not asked for again and again.
    await expect(client.operations.waitForOperation('o1')).rejects.toMatchObject({ status: 500 });
    expect(tiny.asked.filter((one) => one.endsWith(WAIT))).toHaveLength(2);
  });

  it('warns of an unknown attribute once, as KEELSON_WARNINGS says', async () => {
    const before = process.env['KEELSON_WARNINGS'];
    const seen: string[] = [];
    const listen = (warning: Error): void => void (warning.name === 'KeelsonWarning' && seen.push(warning.message));
    process.on('warning', listen);
    const ask = async (attribute: string): Promise<number> => {
      tiny.reply('GET /1.0/operations/o1', { metadata: { id: 'o1', status_code: 103, [attribute]: 1 } });
      for (let times = 0; times < 2; times++) await client.operations.get('o1');
      await new Promise((resolve) => setImmediate(resolve));
      return seen.splice(0).length;
    };
    try {
      delete process.env['KEELSON_WARNINGS'];
      expect(await ask('colour')).toBe(1);
      process.env['KEELSON_WARNINGS'] = 'none';
      expect(await ask('shape')).toBe(0);
      process.env['KEELSON_WARNINGS'] = 'always';
      expect(await ask('colour')).toBe(2);
    } finally {
      process.off('warning', listen);
      if (before === undefined) delete process.env['KEELSON_WARNINGS'];
      else process.env['KEELSON_WARNINGS'] = before;
    }
  });

  it('exports a kilobyte at a time, or as much as is asked for', async () => {
    tiny.reply('GET /1.0/images/f1', { metadata: { fingerprint: 'f1' } });
    tiny.reply('GET /1.0/images/f1/export', { status: 200, body: 'x'.repeat(5000) });
    const some = await open(fileURLToPath(import.meta.url));
    const prototype = Object.getPrototypeOf(some) as Pick<FileHandle, 'writeFile'>;
    await some.close();
    const { writeFile } = prototype;
    const sizes: number[] = [];
    prototype.writeFile = function write(this: FileHandle, ...args: Parameters<FileHandle['writeFile']>) {
      sizes.push((args[0] as Uint8Array).byteLength);
      return Reflect.apply(writeFile, this, args) as Promise<void>;
    };
    try {
      const image = await client.images.get('f1');
      await (await exportToFile(image)).close();
      expect(sizes.splice(0)).toEqual([1024, 1024, 1024, 1024, 904]);
      await (await exportToFile(image, { chunkSize: 4096 })).close();
      expect(sizes).toEqual([4096, 904]);
    } finally {
      prototype.writeFile = writeFile;
    }
  });
});
