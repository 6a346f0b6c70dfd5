import { describe, expect, it } from 'vitest';
import {
  checkLimitChange,
  checkRoom,
  type CountedInstance,
  type ProjectContent,
  projectState,
} from './project-limits.ts';

const instance = (name: string, config: Record<string, string> = {}, size = ''): CountedInstance => ({
  name,
  type: name.startsWith('v') ? 'virtual-machine' : 'container',
  config,
  devices: { root: { type: 'disk', path: '/', pool: 'p', size } },
});

const content: ProjectContent = {
  instances: [
    instance('c1', { 'limits.memory': '512MiB', 'limits.cpu': '2', 'limits.processes': '100' }, '1GiB'),
    instance('v1', { 'limits.memory': '1GiB', 'limits.cpu': '1' }, '512MiB'),
  ],
  networks: 1,
  volumes: [{ pool: 'p', name: 'data', size: 1024 }],
};
const MiB = 1024 ** 2;

describe('limits of a project', () => {
  it('are shown with the use of each', () => {
    const limits = { 'limits.memory': '2GiB', 'limits.containers': '5', 'limits.disk': '' };
    expect(projectState(limits, content).resources).toEqual({
      instances: { Limit: -1, Usage: 2 },
      containers: { Limit: 5, Usage: 1 },
      'virtual-machines': { Limit: -1, Usage: 1 },
      networks: { Limit: -1, Usage: 1 },
      cpu: { Limit: -1, Usage: 3 },
      memory: { Limit: 2048 * MiB, Usage: 1536 * MiB },
      processes: { Limit: -1, Usage: 100 },
      disk: { Limit: -1, Usage: 1536 * MiB + 1024 },
    });
  });

  it.each([
    [{ 'limits.instances': '1' }, 'Reached maximum number of instances in project "p1"'],
    [{ 'limits.containers': '0' }, 'Reached maximum number of instances of type container in project "p1"'],
    [{ 'limits.virtual-machines': '0' }, 'Reached maximum number of instances of type virtual-machine'],
    [{ 'limits.memory': '1GiB' }, 'Reached maximum aggregate value "1GiB" for "limits.memory" in project "p1"'],
    [{ 'limits.cpu': '2' }, 'Reached maximum aggregate value "2" for "limits.cpu"'],
    [{ 'limits.disk': '1GiB' }, 'Reached maximum aggregate value "1GiB" for "limits.disk"'],
    [
      { 'limits.processes': '9999' },
      'Instance "v1" in project "p1" has no "limits.processes" config, either directly or via a profile',
    ],
  ])('refuse what %o has no room for', (limits, text) => {
    expect(() => checkRoom('p1', limits, content)).toThrow(text);
  });

  it('let through what fits', () => {
    const limits = {
      'limits.instances': '2',
      'limits.memory': '1536MiB',
      'limits.cpu': '3',
      'limits.disk': '2GiB',
      'limits.networks': '1',
    };
    expect(() => checkRoom('p1', limits, content)).not.toThrow();
    expect(() => checkRoom('p1', {}, content)).not.toThrow();
  });

  it('refuse disks without a size while the disk is limited', () => {
    const limits = { 'limits.disk': '100GiB' };
    const bare = { ...content, instances: [instance('c1')] };
    const text =
      'Instance "c1" in project "p1" has no "size" config set on the root device either directly or via a profile';
    expect(() => checkRoom('p1', limits, bare)).toThrow(text);
    expect(() => checkLimitChange('p1', { before: {}, after: limits }, bare)).toThrow(text);
    const unsized = { ...content, volumes: [{ pool: 'p', name: 'data', size: undefined }] };
    expect(() => checkRoom('p1', limits, unsized)).toThrow(
      'Custom volume "data" in project "p1" has no "size" config set',
    );
    expect(() => checkRoom('p1', {}, unsized)).not.toThrow();
  });

  it('cannot be summed over percentages and CPU sets', () => {
    const odd = (config: Record<string, string>) => ({ ...content, instances: [instance('c1', config)] });
    expect(() => checkRoom('p1', { 'limits.memory': '1GiB' }, odd({ 'limits.memory': '10%' }))).toThrow('percentage');
    expect(() => checkRoom('p1', { 'limits.cpu': '4' }, odd({ 'limits.cpu': '0-1' }))).toThrow('CPU set');
  });

  it.each([
    ['limits.instances', '1', '"limits.instances" is too low: there currently are 2 total instances in project "p1"'],
    ['limits.containers', '0', 'there currently are 1 instances of type container in project "p1"'],
    ['limits.memory', '1GiB', '"limits.memory" is too low: current total is "1.61GB"'],
    ['limits.processes', '500', 'has no "limits.processes" config'],
  ])('cannot be set below the use: %s=%s', (key, value, text) => {
    expect(() => checkLimitChange('p1', { before: {}, after: { [key]: value } }, content)).toThrow(text);
    expect(() => checkLimitChange('p1', { before: { [key]: value }, after: { [key]: value } }, content)).not.toThrow();
    expect(() => checkLimitChange('p1', { before: { [key]: value }, after: {} }, content)).not.toThrow();
  });
});
