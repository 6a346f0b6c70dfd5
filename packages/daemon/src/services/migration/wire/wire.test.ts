import { describe, expect, test } from 'vitest';
import {
  decodeControl,
  decodeHeader,
  encodeControl,
  encodeHeader,
  failureIn,
  type MigrationHeader,
} from './messages.ts';
import { chooseType, offerOf } from './negotiate.ts';
import { readFields } from './protobuf.ts';

/** What LXD 5.0.2 offers for a container with one snapshot on a btrfs pool. */
const OFFER = Buffer.from(
  '0801220273302af2030a027330120f0a09757365722e6e6f74651202c3bc12210a17766f6c6174696c652e6170706c795f74656d706c61' +
    '7465120663726561746512470a1f766f6c6174696c652e636c6f75642d696e69742e696e7374616e63652d696412243334623437386665' +
    '2d376164322d343461642d386336322d31393137396534363435633312180a13766f6c6174696c652e69646d61702e6261736512013012' +
    'ad010a13766f6c6174696c652e69646d61702e6e6578741295015b7b224973756964223a747275652c224973676964223a66616c73652c' +
    '22486f73746964223a3130303030302c224e736964223a302c224d617072616e6765223a31303030303030317d2c7b224973756964223a' +
    '66616c73652c224973676964223a747275652c22486f73746964223a3130303030302c224e736964223a302c224d617072616e6765223a' +
    '31303030303030317d5d121f0a19766f6c6174696c652e6c6173745f73746174652e69646d617012025b5d12350a0d766f6c6174696c65' +
    '2e75756964122436383133666438362d393366632d346237322d386435302d34376435643439653638623420002a2b0a04726f6f74120c' +
    '0a047479706512046469736b12090a047061746812012f120a0a04706f6f6c120262743002380040d2d48ad806488092b8c398feffffff' +
    '01508092b8c398feffffff0138004208080110011801200162060801100118016801',
  'hex',
);
const NEVER = Date.parse('0001-01-01T00:00:00Z') / 1000;

describe('headers', () => {
  test('reads the offer of a real LXD', () => {
    const header = decodeHeader(OFFER);
    expect(header).toMatchObject({
      fs: 'btrfs',
      criu: undefined,
      idmap: [],
      snapshotNames: ['s0'],
      predump: false,
      rsync: ['xattrs', 'delete', 'compress', 'bidirectional'],
      btrfs: ['migration_header', 'header_subvolumes', 'header_subvolume_uuids'],
      indexHeaderVersion: 1,
    });
    const [snapshot] = header.snapshots;
    expect(snapshot).toMatchObject({
      name: 's0',
      devices: { root: { type: 'disk', path: '/', pool: 'bt' } },
      architecture: 2,
      lastUsedAt: NEVER,
      expiresAt: NEVER,
    });
    expect(snapshot?.config['user.note']).toBe('ü');
  });

  test('writes what it read, byte by byte but for the order of maps', () => {
    const again = encodeHeader(decodeHeader(OFFER));
    expect(again.equals(OFFER)).toBe(true);
  });

  test('a header with everything comes back', () => {
    const header: MigrationHeader = {
      fs: 'block-and-rsync',
      criu: 'none',
      idmap: [{ isUid: true, isGid: false, hostId: 1_000_000, guestId: 0, range: 1_000_000_000 }],
      snapshotNames: ['s0'],
      snapshots: [
        {
          name: 's0',
          config: { 'user.note': 'x' },
          profiles: ['default'],
          ephemeral: false,
          devices: {},
          architecture: 2,
          stateful: false,
          createdAt: 1_700_000_000,
          lastUsedAt: NEVER,
          expiresAt: NEVER,
          identities: ['a:1', 'b:2'],
        },
      ],
      known: ['s0'],
      predump: false,
      rsync: ['xattrs', 'hardlinks', 'acls'],
      refresh: true,
      zfs: ['compress'],
      volumeSize: 10 * 1024 ** 4,
      btrfs: undefined,
      indexHeaderVersion: 1,
    };
    expect(decodeHeader(encodeHeader(header))).toEqual(header);
  });

  test('control messages, also in place of a header', () => {
    const failure = { success: false, message: 'no room' };
    expect(decodeControl(encodeControl(failure))).toEqual(failure);
    expect(failureIn(encodeControl(failure))).toEqual(failure);
    expect(failureIn(OFFER)).toBeUndefined();
    expect(encodeControl({ success: true, message: '' }).toString('hex')).toBe('08011200');
  });

  test.each(['ff', '0a05', '0affffffffffffffffff', '08ffffffffffffffffffff01', '0b', '07'])(
    '%s is no message',
    (hex) => {
      expect(() => readFields(Buffer.from(hex, 'hex'))).toThrow('cannot be read');
    },
  );

  test('every cut of a real message is refused or read, never more', () => {
    for (let end = 0; end < OFFER.length; end++) {
      try {
        decodeHeader(OFFER.subarray(0, end));
      } catch (error) {
        expect(String(error)).toContain('cannot be read');
      }
    }
  });
});

describe('negotiation', () => {
  const rsync = { fs: 'rsync', features: ['xattrs', 'delete', 'bidirectional', 'hardlinks'] } as const;
  const btrfs = { fs: 'btrfs', features: ['migration_header'] } as const;

  test('the common format wins, with the features both have', () => {
    expect(chooseType(decodeHeader(OFFER), 'rsync', [btrfs, rsync])).toEqual(btrfs);
    expect(chooseType(decodeHeader(OFFER), 'rsync', [rsync])).toEqual({
      fs: 'rsync',
      features: ['xattrs', 'delete', 'bidirectional'],
    });
    expect(chooseType({ ...offerOf([rsync]) }, 'rsync', [btrfs, rsync])).toEqual(rsync);
  });

  test('a peer that negotiates no features has what old ones had', () => {
    const old = { fs: 'rsync', rsync: ['xattrs'], btrfs: undefined, zfs: undefined } as const;
    expect(chooseType(old, 'rsync', [rsync]).features).toEqual(['xattrs', 'delete']);
  });

  test('nothing in common', () => {
    expect(() => chooseType(offerOf([btrfs]), 'block-and-rsync', [rsync])).toThrow('No matching migration types');
  });
});
