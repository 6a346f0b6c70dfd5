import { parseCpuLimit, parseSize, type ProjectState } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { InstanceType } from '../../state/records/instance.ts';
import { formatBytes } from '../operations/progress.ts';

type Config = Readonly<Record<string, string>>;

/** An instance as it counts: config and devices with its profiles applied. */
export interface CountedInstance {
  readonly name: string;
  readonly type: InstanceType;
  readonly config: Config;
  readonly devices: Readonly<Record<string, Config>>;
}

/** A custom volume as it counts. */
export interface CountedVolume {
  readonly pool: string;
  readonly name: string;
  /** Bytes; undefined for one without a size. */
  readonly size: number | undefined;
}

/** What lies in a project and can be limited. */
export interface ProjectContent {
  readonly instances: readonly CountedInstance[];
  readonly networks: number;
  readonly volumes: readonly CountedVolume[];
}

type Counted = 'instances' | 'containers' | 'virtual-machines' | 'networks';
type Summed = 'cpu' | 'memory' | 'processes' | 'disk';

const counted: readonly Counted[] = ['instances', 'containers', 'virtual-machines', 'networks'];
const summed: readonly Summed[] = ['cpu', 'memory', 'processes', 'disk'];

/** `GET /1.0/projects/:name/state`. */
export function projectState(config: Config, content: ProjectContent): ProjectState {
  const resources: ProjectState['resources'] = {};
  for (const name of counted) resources[name] = { Limit: limitOf(config, name), Usage: countOf(name, content) };
  for (const name of summed) resources[name] = { Limit: limitOf(config, name), Usage: sumOf(name, content) };
  return { resources };
}

/** Checks changed limits against what is there. @throws bad-request naming the limit and the use. */
export function checkLimitChange(
  project: string,
  change: { before: Config; after: Config },
  content: ProjectContent,
): void {
  for (const name of [...counted, ...summed]) {
    const key = `limits.${name}`;
    if (change.after[key] === change.before[key] || change.after[key] === undefined) continue;
    const limit = limitOf(change.after, name);
    if (isCounted(name)) {
      const count = countOf(name, content);
      if (count > limit) {
        throw errors.badRequest(
          `Can't change "${key}" in project "${project}": "${key}" is too low: there currently are ${count} ${name === 'instances' ? 'total instances' : describe(name)} in project "${project}"`,
        );
      }
    } else {
      requireValues(project, name, content);
      const sum = sumOf(name, content);
      if (sum > limit) throw errors.badRequest(`"${key}" is too low: current total is "${show(name, sum)}"`);
    }
  }
}

/** Checks whether the project has room for what `content` would then be. @throws bad-request with LXD's text. */
export function checkRoom(project: string, config: Config, content: ProjectContent): void {
  for (const name of counted) {
    const limit = limitOf(config, name);
    if (limit >= 0 && countOf(name, content) > limit) {
      throw errors.badRequest(`Reached maximum number of ${describe(name)} in project "${project}"`);
    }
  }
  for (const name of summed) {
    const limit = limitOf(config, name);
    if (limit < 0) continue;
    requireValues(project, name, content);
    if (sumOf(name, content) > limit) {
      const text = config[`limits.${name}`] ?? '';
      throw errors.badRequest(`Reached maximum aggregate value "${text}" for "limits.${name}" in project "${project}"`);
    }
  }
}

/** A sum means nothing while something in it has no limit itself. */
function requireValues(project: string, name: Summed, { instances, volumes }: ProjectContent): void {
  if (name === 'disk') return requireSizes(project, instances, volumes);
  for (const { name: instance, config } of instances) {
    const key = `limits.${name}`;
    const value = config[key] ?? '';
    if (value === '') {
      throw errors.badRequest(
        `Instance "${instance}" in project "${project}" has no "${key}" config, either directly or via a profile`,
      );
    }
    if (name === 'memory' && value.endsWith('%')) {
      throw errors.badRequest(
        `Value for "${key}" of instance "${instance}" in project "${project}" can't be a percentage`,
      );
    }
    if (name === 'cpu' && parseCpuLimit(value)?.kind === 'set') {
      throw errors.badRequest(
        `Value for "${key}" of instance "${instance}" in project "${project}" can't be a CPU set`,
      );
    }
  }
}

function requireSizes(project: string, instances: readonly CountedInstance[], volumes: readonly CountedVolume[]): void {
  const instance = instances.find((one) => (rootOf(one)?.['size'] ?? '') === '');
  if (instance !== undefined) {
    throw errors.badRequest(
      `Instance "${instance.name}" in project "${project}" has no "size" config set on the root device either directly or via a profile`,
    );
  }
  const volume = volumes.find(({ size }) => size === undefined);
  if (volume !== undefined)
    throw errors.badRequest(`Custom volume "${volume.name}" in project "${project}" has no "size" config set`);
}

/** -1: none. */
function limitOf(config: Config, name: Counted | Summed): number {
  const text = config[`limits.${name}`] ?? '';
  return text === '' ? -1 : bytesOrNumber(text);
}

function countOf(name: Counted, { instances, networks }: ProjectContent): number {
  switch (name) {
    case 'instances':
      return instances.length;
    case 'containers':
      return instances.filter(({ type }) => type === 'container').length;
    case 'virtual-machines':
      return instances.filter(({ type }) => type === 'virtual-machine').length;
    case 'networks':
      return networks;
  }
}

function sumOf(name: Summed, { instances, volumes }: ProjectContent): number {
  const own = instances.map((instance) =>
    name === 'disk' ? rootSize(instance) : valueOf(name, instance.config[`limits.${name}`] ?? ''),
  );
  const rest = name === 'disk' ? volumes.map(({ size }) => size ?? 0) : [];
  return [...own, ...rest].reduce((sum, value) => sum + value, 0);
}

function rootOf({ devices }: CountedInstance): Config | undefined {
  return Object.values(devices).find((device) => device['type'] === 'disk' && device['path'] === '/');
}

function rootSize(instance: CountedInstance): number {
  return bytesOrNumber(rootOf(instance)?.['size'] ?? '');
}

function valueOf(name: Summed, text: string): number {
  if (name === 'cpu') {
    const cpu = parseCpuLimit(text);
    return cpu?.kind === 'count' ? cpu.count : (cpu?.cpus.length ?? 0);
  }
  return text.endsWith('%') ? 0 : bytesOrNumber(text);
}

function bytesOrNumber(text: string): number {
  const parsed = parseSize(text);
  return parsed.ok ? parsed.value : 0;
}

function isCounted(name: Counted | Summed): name is Counted {
  return counted.some((known) => known === name);
}

function describe(name: Counted): string {
  if (name === 'containers') return 'instances of type container';
  if (name === 'virtual-machines') return 'instances of type virtual-machine';
  return name;
}

function show(name: Summed, sum: number): string {
  return name === 'memory' || name === 'disk' ? formatBytes(sum) : String(sum);
}
