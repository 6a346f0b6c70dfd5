import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import { DiffStream, type DiffStreamOptions } from './diff-stream.ts';

const banner = Buffer.from('rbd diff v1\n');
const number = (value: number | bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const text = (value: string): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(value.length);
  return Buffer.concat([length, Buffer.from(value)]);
};
const record = (tag: string, ...values: Buffer[]): Buffer => Buffer.concat([Buffer.from(tag), ...values]);
const size = (bytes: number | bigint) => record('s', number(bytes));
const data = (at: number | bigint, content: Buffer) => record('w', number(at), number(content.length), content);
const zero = (at: number | bigint, length: number | bigint) => record('z', number(at), number(length));
const end = record('e');
const content = Buffer.from('0123456789');

/** What goes on of the stream when it comes in chunks of `step` bytes. */
async function through(
  stream: readonly Buffer[],
  { step = 1 << 20, ...options }: Partial<DiffStreamOptions> & { step?: number } = {},
): Promise<Buffer> {
  const whole = Buffer.concat(stream);
  const chunks = Array.from({ length: Math.ceil(whole.length / step) }, (_, at) =>
    whole.subarray(at * step, (at + 1) * step),
  );
  const diff = new DiffStream({ from: async (name) => name, to: undefined, limit: 1 << 30, ...options });
  const [passed] = await Promise.all([buffer(diff), pipeline(Readable.from(chunks), diff)]);
  return passed;
}

describe('a stream of an RBD image', () => {
  it.each([1, 7, 1 << 20])('passes with its snapshots renamed, in chunks of %i bytes', async (step) => {
    const stream = [banner, record('f', text('a')), record('t', text('b')), size(64), data(8, content), zero(32, 8)];
    const renamed = { from: async (name: string | undefined) => `mine_${name}`, to: 'other' };
    const wanted = [banner, record('f', text('mine_a')), record('t', text('other')), ...stream.slice(3), end];
    expect((await through([...stream, end], { ...renamed, step })).equals(Buffer.concat(wanted))).toBe(true);
  });

  it('loses the name of a state that becomes no snapshot, and may hold nothing', async () => {
    expect(await through([banner, record('t', text('b')), size(0), end])).toEqual(
      Buffer.concat([banner, size(0), end]),
    );
  });

  it('has long extents of data cut', async () => {
    const long = Buffer.alloc(9 * 1024 ** 2, 7);
    const passed = await through([banner, size(long.length), data(0, long), end], { step: 65_537 });
    const piece = 4 * 1024 ** 2;
    const wanted = [banner, size(long.length)];
    for (const at of [0, piece, 2 * piece]) wanted.push(data(at, long.subarray(at, at + piece)));
    expect(passed.equals(Buffer.concat([...wanted, end]))).toBe(true);
  });

  it('asks what it builds on before anything goes on', async () => {
    const refused = through([banner, record('f', text('a')), size(8), end], {
      from: () => Promise.reject(new Error('no such snapshot')),
    });
    await expect(refused).rejects.toThrow('no such snapshot');
    let asked: unknown = 'not asked';
    await through([banner, size(8), end], { from: async (name) => void (asked = name) });
    expect(asked).toBeUndefined();
  });

  it.each<[string, Buffer[]]>([
    ['nothing', []],
    ['another format', [Buffer.from('rbd diff v2\n'), size(8), end]],
    ['no stream', [Buffer.alloc(1000, 'x')]],
    ['no end', [banner, size(64), data(0, content)]],
    ['a cut extent', [banner, size(64), data(0, content).subarray(0, 20)]],
    ['a cut record', [banner, size(64).subarray(0, 5)]],
    ['no size', [banner, data(0, content), end]],
    ['two sizes', [banner, size(64), size(128), end]],
    ['a size among the extents', [banner, size(64), zero(0, 8), size(128), end]],
    ['a snapshot among the extents', [banner, size(64), zero(0, 8), record('t', text('a')), end]],
    ['two ends', [banner, record('t', text('a')), record('t', text('b')), size(64), end]],
    ['an empty name', [banner, record('t', text('')), size(64), end]],
    ['an endless name', [banner, record('t', Buffer.from([0xff, 0xff, 0xff, 0xff])), Buffer.alloc(4096), size(8), end]],
    ['an unknown record', [banner, size(64), record('q', number(0)), end]],
    ['data behind the image', [banner, size(64), data(60, content), end]],
    ['data far behind the image', [banner, size(64), data(2n ** 64n - 4n, content), end]],
    ['zeroes behind the image', [banner, size(64), zero(0, 2n ** 63n), end]],
    ['an extent of nothing', [banner, size(64), zero(0, 0), end]],
    ['more than the image holds', [banner, size(16), data(0, content), data(0, content), end]],
    ['an image too large', [banner, size(2n ** 62n), end]],
    ['more after the end', [banner, size(8), end, Buffer.from('more')]],
  ])('is refused with %s', async (_, stream) => {
    for (const step of [1, 1 << 20])
      await expect(through(stream, { step })).rejects.toMatchObject({ code: 'bad-request' });
  });
});
