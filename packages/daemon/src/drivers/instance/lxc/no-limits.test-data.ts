import type { LimitsSpec } from '../contract.ts';

/** What an instance without any `limits.*` key has. */
export const noLimits: LimitsSpec = {
  cpus: undefined,
  cpuAllowance: undefined,
  cpuPriority: undefined,
  memory: undefined,
  memoryEnforce: 'hard',
  memorySwap: true,
  processes: undefined,
  kernel: {},
  disks: [],
};
