import type { ValueType } from './value-type.ts';

/** `limits.cpu`: a number of CPUs, or the CPUs themselves. */
export type CpuLimit =
  | { readonly kind: 'count'; readonly count: number }
  | { readonly kind: 'set'; readonly cpus: readonly number[] };

/** Largest CPU id a set may name; keeps a lying range from filling memory. */
const maximumCpu = 8191;

/** Reads `4` (a count), `0-3` or `1,3,5-7` (a set, ascending, without repeats); undefined when the text is none. */
export function parseCpuLimit(text: string): CpuLimit | undefined {
  if (/^\d+$/.test(text)) {
    return { kind: 'count', count: Number(text) };
  }
  const cpus = new Set<number>();
  for (const part of text.split(',')) {
    const match = /^(\d{1,4})(?:-(\d{1,4}))?$/.exec(part);
    if (match === null) {
      return undefined;
    }
    const first = Number(match[1]);
    const last = match[2] === undefined ? first : Number(match[2]);
    if (last > maximumCpu || first > last) {
      return undefined;
    }
    for (let cpu = first; cpu <= last; cpu++) {
      cpus.add(cpu);
    }
  }
  return { kind: 'set', cpus: [...cpus].sort((left, right) => left - right) };
}

export const cpuLimit: ValueType = {
  name: 'number or set of CPUs',
  check: (value) => (parseCpuLimit(value) === undefined ? 'Invalid CPU limit syntax' : undefined),
};

/** `limits.cpu.allowance`: a soft share in percent, or a hard quota per period in milliseconds. */
export type CpuAllowance =
  | { readonly kind: 'share'; readonly percent: number }
  | { readonly kind: 'quota'; readonly quotaMs: number; readonly periodMs: number };

/** Reads `50%` or `25ms/100ms`; undefined when the text is neither. */
export function parseCpuAllowance(text: string): CpuAllowance | undefined {
  const share = /^(\d+)%$/.exec(text);
  if (share !== null) {
    return { kind: 'share', percent: Number(share[1]) };
  }
  const quota = /^(\d+)(?:ms)?\/(\d+)(?:ms)?$/.exec(text);
  if (quota === null) {
    return undefined;
  }
  return { kind: 'quota', quotaMs: Number(quota[1]), periodMs: Number(quota[2]) };
}

export const cpuAllowance: ValueType = {
  name: 'percentage or quota per period',
  check: (value) => (parseCpuAllowance(value) === undefined ? `Invalid allowance: ${value}` : undefined),
};
