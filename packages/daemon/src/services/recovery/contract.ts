import type { VolumeType } from '../../state/records/storage.ts';

/** A pool to look at: one of the server's by its name, or an unknown one with all it takes to open it. */
export interface RecoverPool {
  readonly name: string;
  readonly driver: string;
  readonly description: string;
  readonly config: Readonly<Record<string, string>>;
}

/** Something on a pool that the records do not know. */
export interface UnknownVolume {
  readonly pool: string;
  readonly project: string;
  readonly type: Extract<VolumeType, 'container' | 'custom'>;
  readonly name: string;
  readonly snapshots: readonly string[];
}

export interface RecoveryReport {
  /** What can come back; after an import what did. */
  readonly volumes: readonly UnknownVolume[];
  /** What has to be there first, for example `Profile "web" in project "default"`. */
  readonly missing: readonly string[];
  /** What cannot come back, one sentence each. */
  readonly problems: readonly string[];
}

/** Finds what is on pools and not in the records, and brings it back. */
export interface Recovery {
  /** @throws bad-request when a pool cannot be opened. */
  validate(pools: readonly RecoverPool[]): Promise<RecoveryReport>;
  /** Does nothing while `missing` holds something. @throws bad-request when a pool cannot be opened. */
  import(pools: readonly RecoverPool[]): Promise<RecoveryReport>;
}
