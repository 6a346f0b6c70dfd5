import { type Case, none, one, root } from '../case.ts';

export const instanceErrors: readonly Case[] = [
  one('instances empty', 'GET', '/1.0/instances'),
  one('instance missing', 'GET', '/1.0/instances/nope'),
  one('instance state missing', 'GET', '/1.0/instances/nope/state'),
  one('instance start missing', 'PUT', '/1.0/instances/nope/state', { action: 'start' }),
  one('instance delete missing', 'DELETE', '/1.0/instances/nope'),
  one('instance create bad name', 'POST', '/1.0/instances', none('a_b')),
  one('instance create slash', 'POST', '/1.0/instances', none('a/b')),
  one('instance create long name', 'POST', '/1.0/instances', none('a'.repeat(64))),
  one('instance create bad key', 'POST', '/1.0/instances', none('bad', { config: { 'no.such': '1' } })),
  one('instance create bad value', 'POST', '/1.0/instances', none('bad', { config: { 'limits.cpu': 'many' } })),
  one(
    'instance create bad device',
    'POST',
    '/1.0/instances',
    none('bad', { devices: { root, x: { type: 'nonsense' } } }),
  ),
  one('instance create without root', 'POST', '/1.0/instances', {
    name: 'bad',
    source: { type: 'none' },
    profiles: [],
  }),
  one(
    'instance create missing pool',
    'POST',
    '/1.0/instances',
    none('bad', { devices: { root: { ...root, pool: 'nope' } } }),
  ),
  one('instance create missing profile', 'POST', '/1.0/instances', none('bad', { profiles: ['nope'] })),
  one('instance create missing image', 'POST', '/1.0/instances', {
    name: 'bad',
    source: { type: 'image', alias: 'nope' },
    profiles: [],
    devices: { root },
  }),
  one('instance create missing fingerprint', 'POST', '/1.0/instances', {
    name: 'bad',
    source: { type: 'image', fingerprint: 'abcdef' },
    profiles: [],
    devices: { root },
  }),
  one('instance create from a missing instance', 'POST', '/1.0/instances', {
    name: 'bad',
    source: { type: 'copy', source: 'nope' },
  }),
  one('instance create bad source', 'POST', '/1.0/instances', { name: 'bad', source: { type: 'nonsense' } }),
  one('instance create wrong type', 'POST', '/1.0/instances', { name: 'bad', config: [] }),
];
