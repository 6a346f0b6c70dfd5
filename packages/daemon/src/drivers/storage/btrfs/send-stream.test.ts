import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import { encodeCommand, SendStreamRewriter, type StreamParent } from './send-stream.ts';

const OWN = '11'.repeat(16);
const PARENT = '22'.repeat(16);
const HERE = '33'.repeat(16);

const header = Buffer.concat([Buffer.from('btrfs-stream\0'), Buffer.from([1, 0, 0, 0])]);
const attribute = (type: number, value: string | Buffer) => ({ type, value: Buffer.from(value) });
const uuid = (type: number, id: string) => attribute(type, Buffer.from(id, 'hex'));
const number = (type: number, value: number) => {
  const content = Buffer.alloc(8);
  content.writeBigUInt64LE(BigInt(value));
  return attribute(type, content);
};
const subvolume = (name: string) => encodeCommand(1, [attribute(15, name), uuid(1, OWN), number(2, 7)]);
const snapshot = (name: string, parent: string) =>
  encodeCommand(2, [attribute(15, name), uuid(1, OWN), number(2, 7), uuid(20, parent), number(21, 9)]);
const write = encodeCommand(15, [attribute(15, 'file'), number(18, 0), attribute(19, 'x'.repeat(5000))]);
const clone = (from: string) => encodeCommand(16, [attribute(15, 'file'), uuid(20, from), number(21, 9)]);
const end = encodeCommand(21, []);

async function rewritten(content: Buffer, chunk: number, parents: StreamParent[] = []): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for (let at = 0; at < content.length; at += chunk) chunks.push(content.subarray(at, at + chunk));
  const rewriter = new SendStreamRewriter({
    name: 'part',
    onBytes: () => undefined,
    findParent: async (parent) => {
      parents.push(parent);
      return HERE;
    },
  });
  const [output] = await Promise.all([buffer(rewriter), pipeline(Readable.from(chunks), rewriter)]);
  return output;
}

describe('a send stream on its way in', () => {
  it('has the checksums of the kernel', () => {
    const begin = [attribute(15, 'b'), uuid(1, '9bea1a4bcc464e4783b1245493fe804f'), number(2, 7)];
    expect(encodeCommand(21, []).toString('hex')).toBe('000000001500506cc99d');
    expect(encodeCommand(1, begin).toString('hex', 0, 10)).toBe('250000000100645d4436');
  });

  it.each([1, 7, 64, 100_000])('is renamed and given its parent, in pieces of %i bytes', async (size) => {
    const parents: StreamParent[] = [];
    const stream = Buffer.concat([header, snapshot('.migration-send', PARENT), write, clone(PARENT), clone(OWN), end]);
    const wanted = Buffer.concat([header, snapshot('part', HERE), write, clone(HERE), clone(OWN), end]);
    expect(await rewritten(stream, size, parents)).toEqual(wanted);
    expect(parents).toEqual([{ uuid: PARENT, transaction: 9n }]);
  });

  it('keeps a whole stream as it is, but for the name', async () => {
    const stream = Buffer.concat([header, subvolume('../../etc'), write, write, end]);
    expect(await rewritten(stream, 64)).toEqual(Buffer.concat([header, subvolume('part'), write, write, end]));
  });

  it.each<[string, Buffer]>([
    ['empty', Buffer.alloc(0)],
    ['something else', Buffer.from('hello, this is not one of them')],
    ['of an unknown version', Buffer.concat([header.subarray(0, 13), Buffer.from([9, 0, 0, 0]), subvolume('a'), end])],
    ['without a subvolume', Buffer.concat([header, write, end])],
    ['of two subvolumes', Buffer.concat([header, subvolume('a'), subvolume('b'), end])],
    ['without an end', Buffer.concat([header, subvolume('a'), write])],
    ['cut in a command', Buffer.concat([header, subvolume('a'), write]).subarray(0, 300)],
    ['followed by more', Buffer.concat([header, subvolume('a'), end, Buffer.from('x')])],
    ['taking data from another volume', Buffer.concat([header, subvolume('a'), clone(PARENT), end])],
    ['without ids', Buffer.concat([header, encodeCommand(1, [attribute(15, 'a')]), end])],
    ['with a broken attribute', Buffer.concat([header, broken(subvolume('a')), end])],
    ['with a huge command', Buffer.concat([header, Buffer.alloc(10, 0xff)])],
  ])('is refused when it is %s', async (_, stream) => {
    await expect(rewritten(stream, 64)).rejects.toMatchObject({ code: 'bad-request' });
  });
});

function broken(command: Buffer): Buffer {
  const copy = Buffer.from(command);
  copy.writeUInt16LE(60_000, 12);
  return copy;
}
