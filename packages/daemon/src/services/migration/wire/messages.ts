import { MessageWriter, readFields, type WireField } from './protobuf.ts';

/** How content travels. */
export type FsType = 'rsync' | 'btrfs' | 'zfs' | 'rbd' | 'block-and-rsync';
/** State of the processes: copied, copied page by page, or left behind by a guest that runs. */
export type CriuType = 'rsync' | 'phaul' | 'none';

const FS_TYPES: readonly FsType[] = ['rsync', 'btrfs', 'zfs', 'rbd', 'block-and-rsync'];
const CRIU_TYPES: readonly CriuType[] = ['rsync', 'phaul', 'none'];

/** Numbers of feature fields by name. Those from 100 on are our own; others skip them unread. */
const RSYNC_FEATURES = { xattrs: 1, delete: 2, compress: 3, bidirectional: 4, hardlinks: 100, acls: 101 } as const;
const ZFS_FEATURES = { compress: 1, migration_header: 2 } as const;
const BTRFS_FEATURES = { migration_header: 1, header_subvolumes: 2, header_subvolume_uuids: 3 } as const;

/** Number of our own field in messages that LXD has too. */
const OWN = 100;

export interface IdMapEntry {
  readonly isUid: boolean;
  readonly isGid: boolean;
  readonly hostId: number;
  readonly guestId: number;
  readonly range: number;
}

/** A snapshot as its source describes it. Times are seconds since 1970; the year 1 stands for "never". */
export interface WireSnapshot {
  readonly name: string;
  readonly config: Readonly<Record<string, string>>;
  readonly profiles: readonly string[];
  readonly ephemeral: boolean;
  readonly devices: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly architecture: number;
  readonly stateful: boolean;
  readonly createdAt: number;
  readonly lastUsedAt: number;
  readonly expiresAt: number;
  /** Our own: names of its content; one name never stands for two contents. */
  readonly identities?: readonly string[] | undefined;
}

/** The offer of the source, and the answer of the target. Feature lists are undefined where the peer sent none. */
export interface MigrationHeader {
  readonly fs: FsType;
  readonly criu?: CriuType | undefined;
  readonly idmap: readonly IdMapEntry[];
  readonly snapshotNames: readonly string[];
  readonly snapshots: readonly WireSnapshot[];
  readonly predump?: boolean | undefined;
  readonly rsync?: readonly string[] | undefined;
  readonly refresh?: boolean | undefined;
  readonly zfs?: readonly string[] | undefined;
  /** Bytes of a block volume. */
  readonly volumeSize?: number | undefined;
  readonly btrfs?: readonly string[] | undefined;
  readonly indexHeaderVersion?: number | undefined;
  /** Our own: snapshots of the offer that the target has, with the same content; streams may build on them. */
  readonly known?: readonly string[] | undefined;
}

export interface MigrationControl {
  readonly success: boolean;
  readonly message: string;
}

export function encodeHeader(header: MigrationHeader): Buffer {
  const message = new MessageWriter();
  message.number(1, FS_TYPES.indexOf(header.fs));
  if (header.criu !== undefined) message.number(2, CRIU_TYPES.indexOf(header.criu));
  for (const entry of header.idmap) message.bytes(3, encodeIdMap(entry));
  for (const name of header.snapshotNames) message.bytes(4, name);
  for (const snapshot of header.snapshots) message.bytes(5, encodeSnapshot(snapshot));
  message
    .number(7, header.predump)
    .bytes(8, encodeFeatures(header.rsync, RSYNC_FEATURES))
    .number(9, header.refresh)
    .bytes(10, encodeFeatures(header.zfs, ZFS_FEATURES))
    .number(11, header.volumeSize)
    .bytes(12, encodeFeatures(header.btrfs, BTRFS_FEATURES))
    .number(13, header.indexHeaderVersion);
  for (const name of header.known ?? []) message.bytes(OWN, name);
  return message.finish();
}

/** @throws bad-request for what is no header. */
export function decodeHeader(data: Buffer): MigrationHeader {
  const fields = readFields(data);
  return {
    fs: FS_TYPES[numberIn(fields, 1) ?? 0] ?? 'rsync',
    criu: CRIU_TYPES[numberIn(fields, 2) ?? -1],
    idmap: allBytes(fields, 3).map(decodeIdMap),
    snapshotNames: allBytes(fields, 4).map(String),
    snapshots: allBytes(fields, 5).map(decodeSnapshot),
    predump: flagIn(fields, 7),
    rsync: decodeFeatures(fields, 8, RSYNC_FEATURES),
    refresh: flagIn(fields, 9),
    zfs: decodeFeatures(fields, 10, ZFS_FEATURES),
    volumeSize: numberIn(fields, 11),
    btrfs: decodeFeatures(fields, 12, BTRFS_FEATURES),
    indexHeaderVersion: numberIn(fields, 13),
    known: ownIn(fields),
  };
}

export function encodeControl({ success, message }: MigrationControl): Buffer {
  return new MessageWriter().number(1, success).bytes(2, message).finish();
}

/** @throws bad-request for what is no control message. */
export function decodeControl(data: Buffer): MigrationControl {
  const fields = readFields(data);
  return { success: flagIn(fields, 1) ?? false, message: textIn(fields, 2) };
}

/** The failure, where a peer that cannot go on sends one in place of a header: its second field is a text there. */
export function failureIn(data: Buffer): MigrationControl | undefined {
  const fields = readFields(data);
  const isControl =
    fields.every(({ number }) => number <= 2) &&
    fields.some(({ number, value }) => number === 2 && typeof value !== 'bigint');
  return isControl && flagIn(fields, 1) !== true ? decodeControl(data) : undefined;
}

function encodeIdMap(entry: IdMapEntry): Buffer {
  const { isUid, isGid, hostId, guestId, range } = entry;
  return new MessageWriter()
    .number(1, isUid)
    .number(2, isGid)
    .number(3, hostId)
    .number(4, guestId)
    .number(5, range)
    .finish();
}

function decodeIdMap(data: Buffer): IdMapEntry {
  const fields = readFields(data);
  return {
    isUid: flagIn(fields, 1) ?? false,
    isGid: flagIn(fields, 2) ?? false,
    hostId: numberIn(fields, 3) ?? 0,
    guestId: numberIn(fields, 4) ?? 0,
    range: numberIn(fields, 5) ?? 0,
  };
}

function encodeSnapshot(snapshot: WireSnapshot): Buffer {
  const message = new MessageWriter().bytes(1, snapshot.name);
  for (const entry of Object.entries(snapshot.config)) message.bytes(2, encodeEntry(entry));
  for (const profile of snapshot.profiles) message.bytes(3, profile);
  message.number(4, snapshot.ephemeral);
  for (const [name, device] of Object.entries(snapshot.devices)) {
    const part = new MessageWriter().bytes(1, name);
    for (const entry of Object.entries(device)) part.bytes(2, encodeEntry(entry));
    message.bytes(5, part.finish());
  }
  message
    .number(6, snapshot.architecture)
    .number(7, snapshot.stateful)
    .number(8, snapshot.createdAt)
    .number(9, snapshot.lastUsedAt)
    .number(10, snapshot.expiresAt);
  for (const identity of snapshot.identities ?? []) message.bytes(OWN, identity);
  return message.finish();
}

function decodeSnapshot(data: Buffer): WireSnapshot {
  const fields = readFields(data);
  const device = (content: Buffer): [string, Record<string, string>] => {
    const inner = readFields(content);
    return [textIn(inner, 1), Object.fromEntries(allBytes(inner, 2).map(decodeEntry))];
  };
  return {
    name: textIn(fields, 1),
    config: Object.fromEntries(allBytes(fields, 2).map(decodeEntry)),
    profiles: allBytes(fields, 3).map(String),
    ephemeral: flagIn(fields, 4) ?? false,
    devices: Object.fromEntries(allBytes(fields, 5).map(device)),
    architecture: numberIn(fields, 6) ?? 0,
    stateful: flagIn(fields, 7) ?? false,
    createdAt: numberIn(fields, 8) ?? 0,
    lastUsedAt: numberIn(fields, 9) ?? 0,
    expiresAt: numberIn(fields, 10) ?? 0,
    identities: ownIn(fields),
  };
}

function encodeEntry([key, value]: [string, string]): Buffer {
  return new MessageWriter().bytes(1, key).bytes(2, value).finish();
}

function decodeEntry(data: Buffer): [string, string] {
  const fields = readFields(data);
  return [textIn(fields, 1), textIn(fields, 2)];
}

type Numbers = Readonly<Record<string, number>>;

/** LXD's own fields are sent also where they are false, as it does. */
function encodeFeatures(features: readonly string[] | undefined, numbers: Numbers): Buffer | undefined {
  if (features === undefined) return undefined;
  const message = new MessageWriter();
  for (const [name, number] of Object.entries(numbers)) {
    const has = features.includes(name);
    if (has || number < 100) message.number(number, has);
  }
  return message.finish();
}

function decodeFeatures(fields: readonly WireField[], field: number, numbers: Numbers): string[] | undefined {
  const [data] = allBytes(fields, field);
  if (data === undefined) return undefined;
  const inner = readFields(data);
  return Object.keys(numbers).filter((name) => flagIn(inner, numbers[name] ?? 0) === true);
}

function allBytes(fields: readonly WireField[], field: number): Buffer[] {
  return fields.flatMap(({ number, value }) => (number === field && typeof value !== 'bigint' ? [value] : []));
}

/** A list of ours; undefined where the peer sent none. */
function ownIn(fields: readonly WireField[]): readonly string[] | undefined {
  const found = allBytes(fields, OWN).map(String);
  return found.length === 0 ? undefined : found;
}

/** The last one counts. */
function numberIn(fields: readonly WireField[], field: number): number | undefined {
  const found = fields.findLast(({ number, value }) => number === field && typeof value === 'bigint')?.value;
  return typeof found === 'bigint' ? Number(BigInt.asIntN(64, found)) : undefined;
}

function flagIn(fields: readonly WireField[], field: number): boolean | undefined {
  const found = numberIn(fields, field);
  return found === undefined ? undefined : found !== 0;
}

function textIn(fields: readonly WireField[], field: number): string {
  return allBytes(fields, field).at(-1)?.toString('utf8') ?? '';
}
