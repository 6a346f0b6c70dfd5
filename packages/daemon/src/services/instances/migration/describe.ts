import type { InstanceRecord, InstanceSnapshotRecord } from '../../../state/records/instance.ts';
import type { StoragePoolRecord } from '../../../state/records/storage.ts';
import { architectureName, architectureNumber } from '../../migration/wire/architectures.ts';
import type { WireSnapshot } from '../../migration/wire/messages.ts';
import { NO_EXPIRY } from '../context.ts';

/** A snapshot as the other server gets it. */
export function toWire(snapshot: InstanceSnapshotRecord): WireSnapshot {
  return {
    name: snapshot.name,
    config: snapshot.config,
    profiles: snapshot.profiles,
    ephemeral: snapshot.ephemeral,
    devices: snapshot.devices,
    architecture: architectureNumber(snapshot.architecture),
    stateful: false,
    createdAt: seconds(snapshot.createdAt),
    lastUsedAt: seconds(snapshot.lastUsedAt),
    expiresAt: seconds(snapshot.expiresAt),
  };
}

/** What a new snapshot record takes over; `config` and `devices` are the caller's to check. */
export function fromWire(
  snapshot: WireSnapshot,
  instance: InstanceRecord,
  now: string,
): Pick<InstanceSnapshotRecord, 'architecture' | 'createdAt' | 'lastUsedAt' | 'expiresAt' | 'ephemeral'> {
  return {
    architecture: architectureName(snapshot.architecture) ?? instance.architecture,
    ephemeral: snapshot.ephemeral,
    createdAt: timestampOf(snapshot.createdAt) ?? now,
    lastUsedAt: timestampOf(snapshot.lastUsedAt) ?? NO_EXPIRY,
    expiresAt: timestampOf(snapshot.expiresAt) ?? NO_EXPIRY,
  };
}

/** Whole seconds since 1970; the year 1 for what has no time. */
export function seconds(timestamp: string): number {
  return Math.floor(Date.parse(timestamp) / 1000);
}

/** ISO 8601; undefined for "never" and for what no date can hold. */
function timestampOf(time: number): string | undefined {
  if (time <= 0 || time > 253_402_300_799) return undefined;
  return new Date(time * 1000).toISOString();
}

interface IndexParts {
  readonly name: string;
  readonly project: string;
  readonly container: object;
  readonly snapshots: readonly (object & {
    readonly name: string;
    readonly created_at: string;
    readonly expires_at: string;
  })[];
  readonly pool: StoragePoolRecord | undefined;
  readonly profiles: readonly object[];
}

/** The description that goes before the content, with the names LXD gives its members. */
export function migrationIndex({ name, project, container, snapshots, pool, profiles }: IndexParts): object {
  const shared = { config: {}, description: '', content_type: 'filesystem' };
  return {
    config: {
      Container: container,
      Snapshots: snapshots,
      Pool: {
        name: pool?.name ?? '',
        driver: pool?.driver ?? '',
        description: pool?.description ?? '',
        config: pool?.config ?? {},
        used_by: [],
        status: 'Created',
        locations: ['none'],
      },
      Profiles: profiles,
      Volume: {
        ...shared,
        name,
        type: 'container',
        used_by: [],
        location: 'none',
        project,
        created_at: '0001-01-01T00:00:00Z',
      },
      VolumeSnapshots: snapshots.map((one) => ({
        ...shared,
        name: one.name,
        expires_at: one.expires_at === NO_EXPIRY ? null : one.expires_at,
        created_at: one.created_at,
      })),
    },
  };
}
