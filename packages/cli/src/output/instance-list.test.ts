import type { InstanceFull, InstanceState, InstanceStateNetwork } from '@keelson/api';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../command.ts';
import { columnsOf, DEFAULT_COLUMNS } from './instance-columns.ts';
import { matcherOf } from './instance-filter.ts';

function nic(...addresses: [family: string, scope: string, address: string][]): InstanceStateNetwork {
  const found = addresses.map(([family, scope, address]) => ({ family, scope, address, netmask: '24' }));
  return { addresses: found } as Partial<InstanceStateNetwork> as InstanceStateNetwork;
}

const state: Partial<InstanceState> = {
  network: {
    lo: nic(['inet', 'local', '127.0.0.1']),
    eth0: nic(['inet', 'global', '10.0.0.5'], ['inet6', 'link', 'fe80::1'], ['inet6', 'global', 'fd00::5']),
  },
};

const web: Partial<InstanceFull> = {
  name: 'web',
  status: 'Running',
  type: 'container',
  ephemeral: true,
  profiles: ['default', 'small'],
  config: { 'user.owner': 'ann' },
  expanded_config: { 'user.owner': 'ann', 'limits.cpu': '2' },
  expanded_devices: {
    root: { type: 'disk', path: '/', pool: 'fast' },
    data: { type: 'disk', path: '/d', pool: 'slow' },
  },
  state: state as InstanceState,
};
const instance = web as InstanceFull;

describe('columnsOf', () => {
  const row = (columns: string): string[] => columnsOf(columns).map((column) => column.text(instance));

  test('the default ones', () => {
    expect(columnsOf(DEFAULT_COLUMNS).map(({ title }) => title)).toEqual([
      'NAME',
      'STATE',
      'IPV4',
      'IPV6',
      'TYPE',
      'SNAPSHOTS',
    ]);
    expect(row(DEFAULT_COLUMNS)).toEqual([
      'web',
      'RUNNING',
      '10.0.0.5 (eth0)',
      'fd00::5 (eth0)',
      'CONTAINER (EPHEMERAL)',
      '0',
    ]);
  });

  test('letters, and settings also from profiles', () => {
    expect(row('nP,user.owner,limits.cpu,nosuch.key,b')).toEqual(['web', 'default\nsmall', 'ann', '2', '', 'fast']);
  });

  test.each(['Z', 'n,?', '__proto__'])('refuses %s', (columns) => {
    expect(() => columnsOf(columns)).toThrow(UsageError);
  });

  test('every letter copes with a stopped instance', () => {
    const stopped = { name: 'x', status: 'Stopped', type: 'container' } as Partial<InstanceFull> as InstanceFull;
    const texts = columnsOf('ns46tSabcdDlLmNpPue').map((column) => column.text(stopped));
    expect(texts.every((text) => typeof text === 'string')).toBe(true);
  });
});

test.each([
  [[], true],
  [['we'], true],
  [['db'], false],
  [['status=running'], true],
  [['status=stopped'], false],
  [['web', 'type=virtual-machine'], false],
  [['profile=small', 'user.owner=ANN', 'limits.cpu=2'], true],
  [['user.owner='], false],
  [['nosuch.key='], false],
  [['ephemeral=true'], true],
])('matcherOf %j', (words, matches) => {
  expect(matcherOf(words)(instance)).toBe(matches);
});
