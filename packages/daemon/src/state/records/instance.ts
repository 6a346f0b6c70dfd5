export type InstanceType = 'container' | 'virtual-machine';

/** Stored under `/instances/<project>/<name>`. Run state (pid, status) is not stored: the instance driver knows it. */
export interface InstanceRecord {
  readonly project: string;
  readonly name: string;
  readonly type: InstanceType;
  readonly architecture: string;
  readonly description: string;
  readonly ephemeral: boolean;
  readonly stateful: boolean;
  /** Local config without profiles; holds `volatile.*` and `image.*` keys too. */
  readonly config: Readonly<Record<string, string>>;
  readonly devices: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly profiles: readonly string[];
  /** ISO 8601 UTC. */
  readonly createdAt: string;
  readonly lastUsedAt: string;
  /** Pool of the root volume. */
  readonly pool: string;
}

/** Stored under `/instance-snapshots/<project>/<instance>/<name>`. */
export interface InstanceSnapshotRecord extends Omit<InstanceRecord, 'lastUsedAt'> {
  readonly instance: string;
  readonly lastUsedAt: string;
  readonly expiresAt: string;
  readonly size: number;
}

/** Stored under `/instance-backups/<project>/<instance>/<name>`. */
export interface InstanceBackupRecord {
  readonly project: string;
  readonly instance: string;
  readonly name: string;
  readonly createdAt: string;
  readonly expiresAt: string;
  readonly instanceOnly: boolean;
  readonly optimizedStorage: boolean;
  readonly compressionAlgorithm: string;
  /** Bytes of the file; absent in records of old. */
  readonly bytes?: number;
}
