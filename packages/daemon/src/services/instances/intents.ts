import type { InstanceBackupRecord } from '../../state/records/instance.ts';
import type { Write } from '../../state/store.ts';
import type { RootVolume } from './ports.ts';

/** What a half-made instance may have left: its root and files. Undone after a crash. */
export interface CreateIntent {
  readonly project: string;
  readonly name: string;
  readonly root: RootVolume;
}

/** An instance on its way out. Finished after a crash. */
export interface DeleteIntent {
  readonly project: string;
  readonly name: string;
  readonly root: RootVolume;
}

/** A start that may have mounted and plugged things. After a crash: kept when the guest runs, else cleaned up. */
export interface StartIntent {
  readonly project: string;
  readonly name: string;
}

export interface RenameIntent {
  readonly project: string;
  readonly name: string;
  readonly newName: string;
  readonly root: RootVolume;
}

export interface SnapshotIntent {
  readonly project: string;
  readonly name: string;
  readonly snapshot: string;
  readonly root: RootVolume;
}

export interface SnapshotRenameIntent extends SnapshotIntent {
  readonly newName: string;
}

/** A root that moved to `target`; the source goes once the record says so. */
export interface MoveIntent {
  readonly project: string;
  readonly name: string;
  readonly source: RootVolume;
  readonly target: RootVolume;
}

/** A copy whose root is replaced by `temporary`. */
export interface RefreshIntent {
  readonly root: RootVolume;
  readonly temporary: RootVolume;
  /** Make the records follow. */
  readonly writes: readonly Write[];
  /** The new root is complete and takes the old one's place. */
  readonly swapped: boolean;
}

/** A backup whose file and record change their name, or neither. */
export interface BackupRenameIntent {
  readonly from: InstanceBackupRecord;
  readonly to: InstanceBackupRecord;
}

export const INTENTS = {
  backupCreate: 'instance-backup-create',
  backupDelete: 'instance-backup-delete',
  backupRename: 'instance-backup-rename',
  create: 'instance-create',
  delete: 'instance-delete',
  start: 'instance-start',
  rename: 'instance-rename',
  move: 'instance-move',
  refresh: 'instance-refresh',
  snapshotCreate: 'instance-snapshot-create',
  snapshotDelete: 'instance-snapshot-delete',
  snapshotRename: 'instance-snapshot-rename',
} as const;
