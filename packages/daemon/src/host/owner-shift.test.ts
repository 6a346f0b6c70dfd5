import { describe, expect, it } from 'vitest';
import { shiftedAcl, shiftedCapability, shiftedId } from './owner-shift.ts';

const up = { from: 0, to: 1_000_000, size: 65_536 };
const down = { from: 1_000_000, to: 0, size: 65_536 };

it('moves the ids of a range and no others', () => {
  expect([0, 65_535, 65_536, 2_000_000].map((id) => shiftedId(id, up))).toEqual([
    1_000_000, 1_065_535, 65_536, 2_000_000,
  ]);
  expect([1_000_000, 999_999].map((id) => shiftedId(id, down))).toEqual([0, 999_999]);
});

describe('an ACL', () => {
  it('has other ids where it names users and groups', () => {
    const entry = (tag: number, id: number) => {
      const bytes = Buffer.alloc(8);
      bytes.writeUInt16LE(tag, 0);
      bytes.writeUInt16LE(6, 2);
      bytes.writeUInt32LE(id, 4);
      return bytes;
    };
    const acl = (user: number, group: number) =>
      Buffer.concat([
        Buffer.from([2, 0, 0, 0]),
        entry(0x01, 0xffff_ffff),
        entry(0x02, user),
        entry(0x08, group),
        entry(0x10, 0xffff_ffff),
      ]);
    expect(shiftedAcl(acl(33, 44), up)).toEqual(acl(1_000_033, 1_000_044));
    expect(shiftedAcl(shiftedAcl(acl(33, 44), up), down)).toEqual(acl(33, 44));
  });
});

describe('capabilities', () => {
  const v2 = Buffer.alloc(20, 7);
  v2.writeUInt32LE(0x0200_0001, 0);

  it('hold in the namespace of the new root, and come back as they were', () => {
    const shifted = shiftedCapability(v2, up);
    expect(shifted).toHaveLength(24);
    expect(shifted.readUInt32LE(0).toString(16)).toBe('3000001');
    expect(shifted.readUInt32LE(20)).toBe(1_000_000);
    expect(shiftedCapability(shifted, down)).toEqual(v2);
  });

  it('of another form stay', () => {
    const odd = Buffer.from([1, 0, 0, 1]);
    expect(shiftedCapability(odd, up)).toBe(odd);
  });
});
