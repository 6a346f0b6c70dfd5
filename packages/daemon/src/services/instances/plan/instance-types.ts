import { errors } from '../../../core/errors.ts';

/**
 * Limits of an instance type such as `c2-m4` (CPUs and GiB of memory), `c2` or `m0.5`; none for an empty one.
 * @throws bad-request for any other: names of cloud providers' types are not known here.
 */
export function typeLimits(type: string): Record<string, string> {
  if (type === '') return {};
  const match = /^(?:c(\d+))?-?(?:m(\d+(?:\.\d+)?))?$/.exec(type);
  const [cpus, memory] = [match?.[1], match?.[2]];
  if (match === null || (cpus === undefined && memory === undefined)) {
    throw errors.badRequest(`Provided instance type doesn't exist: ${type}`);
  }
  return {
    ...(cpus === undefined ? {} : { 'limits.cpu': cpus }),
    ...(memory === undefined ? {} : { 'limits.memory': `${Math.floor(Number(memory) * 1024)}MiB` }),
  };
}
