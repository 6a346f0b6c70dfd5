import { isTrue } from '@keelson/api';
import type { AdoptOptions, IdRange } from '../../../drivers/storage/contract.ts';
import type { BackupConfig, DescribedState } from './backup-config.ts';
import { parseIdMap } from './idmap.ts';

/** Host ids that the files of a root and its snapshots carry, by what the server that wrote them last told. */
export function shiftOf({ instance, snapshots }: BackupConfig, names: readonly string[]): AdoptOptions {
  const rangeOf = (state: DescribedState | undefined): IdRange | undefined =>
    parseIdMap((state ?? instance).config['volatile.last_state.idmap']);
  const ranges = names.map((name) => [name, rangeOf(snapshots.find((one) => one.name === name))] as const);
  const nesting = isTrue(instance.config['security.nesting']);
  return { idRange: rangeOf(instance), snapshots: new Map(ranges), nesting };
}
