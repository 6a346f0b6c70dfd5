import { isTrue, parseCpuAllowance, parseCpuLimit, parseMemoryLimit } from '@keelson/api';
import { errors } from '../../../core/errors.ts';
import type { LimitsSpec } from '../../../drivers/instance/contract.ts';

type Config = Readonly<Record<string, string>>;

export interface HostCapacity {
  /** Ids of the CPUs guests may use. */
  readonly cpus: readonly number[];
  /** Bytes. */
  readonly memory: number;
}

export interface LimitsRequest {
  /** Expanded config. */
  readonly config: Config;
  readonly host: HostCapacity;
  /** How many other guests are pinned to each CPU id. */
  readonly cpuLoad: ReadonlyMap<number, number>;
  /** CPUs chosen the last time; kept while their number still fits. */
  readonly currentCpus?: readonly number[] | undefined;
  readonly disks?: LimitsSpec['disks'];
}

/** Limits of an instance. @throws bad-request with LXD's text for a value that cannot be met. */
export function planLimits(request: LimitsRequest): LimitsSpec {
  const { config, host } = request;
  return {
    cpus: planCpus(request),
    cpuAllowance: planAllowance(config['limits.cpu.allowance']),
    cpuPriority: numberOf(config['limits.cpu.priority']),
    memory: planMemory(config['limits.memory'], host.memory),
    memoryEnforce: config['limits.memory.enforce'] === 'soft' ? 'soft' : 'hard',
    memorySwap: (config['limits.memory.swap'] ?? '') === '' || isTrue(config['limits.memory.swap']),
    processes: numberOf(config['limits.processes']),
    kernel: planKernel(config),
    disks: request.disks ?? [],
  };
}

function numberOf(value: string | undefined): number | undefined {
  return value === undefined || value === '' ? undefined : Number(value);
}

/** A count picks the least loaded CPUs, a set pins to exactly those. */
function planCpus({ config, host, cpuLoad, currentCpus }: LimitsRequest): readonly number[] | undefined {
  const text = config['limits.cpu'];
  if (text === undefined || text === '') return undefined;
  const limit = parseCpuLimit(text);
  if (limit === undefined) throw errors.badRequest('Invalid CPU limit syntax');
  if (limit.kind === 'set') {
    const usable = limit.cpus.filter((id) => host.cpus.includes(id));
    if (usable.length > 0) return usable;
    throw errors.badRequest(`None of the CPUs of limits.cpu "${text}" exists on this host`);
  }
  const count = Math.min(limit.count, host.cpus.length);
  if (count === 0) throw errors.badRequest('Invalid CPU limit syntax');
  if (currentCpus?.length === count && currentCpus.every((id) => host.cpus.includes(id))) return currentCpus;
  return leastLoaded(count, host.cpus, cpuLoad);
}

function leastLoaded(count: number, cpus: readonly number[], load: ReadonlyMap<number, number>): number[] {
  const byLoad = [...cpus].sort((a, b) => (load.get(a) ?? 0) - (load.get(b) ?? 0) || a - b);
  return byLoad.slice(0, count).sort((a, b) => a - b);
}

/** `20%` is a soft share, `25ms/100ms` a hard quota. */
function planAllowance(text: string | undefined): LimitsSpec['cpuAllowance'] {
  if (text === undefined || text === '' || text === '100%') return undefined;
  const allowance = parseCpuAllowance(text);
  if (allowance === undefined) throw errors.badRequest(`Invalid allowance: ${text}`);
  if (allowance.kind === 'share') return { percent: allowance.percent };
  return { quota: allowance.quotaMs * 1000, period: allowance.periodMs * 1000 };
}

function planMemory(text: string | undefined, total: number): number | undefined {
  if (text === undefined || text === '') return undefined;
  const bytes = parseMemoryLimit(text, total);
  if (bytes === undefined) throw errors.badRequest(`Invalid value: ${text}`);
  return bytes;
}

const KERNEL = 'limits.kernel.';

/** `limits.kernel.nofile=100` limits both; `100:200` soft and hard. */
function planKernel(config: Config): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [key, value] of Object.entries(config)) {
    if (!key.startsWith(KERNEL) || value === '') continue;
    result[key.slice(KERNEL.length)] = value.includes(':') ? value : `${value}:${value}`;
  }
  return result;
}
