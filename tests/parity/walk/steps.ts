import { devices, instances, queries } from './instance-steps.ts';
import { copies, pools, snapshots, volumes } from './volume-steps.ts';

/**
 * What a user of `lxc storage` types, one line of shell each, in order; good and bad. A `#` tells apart lines that are
 * typed twice. Both servers get the same lines, each in a folder of its own.
 */
export const steps: readonly string[] = [
  ...pools,
  ...volumes,
  ...snapshots,
  ...copies,
  ...instances,
  ...devices,
  ...queries,
];
