import { Type, type Static } from 'typebox';
import { Nullable } from './common.ts';
import { Instance } from './instance.ts';
import { InstanceBackup } from './instance-backup.ts';
import { InstanceSnapshot } from './instance-snapshot.ts';
import { InstanceState } from './instance-state.ts';

/** An instance with its state, snapshots and backups. `GET /1.0/instances?recursion=2`. */
export const InstanceFull = Type.Object(
  {
    ...Instance.properties,
    backups: Nullable(Type.Array(InstanceBackup)),
    snapshots: Nullable(Type.Array(InstanceSnapshot)),
    state: Nullable(InstanceState),
  },
  { $id: 'InstanceFull' },
);
export type InstanceFull = Static<typeof InstanceFull>;
