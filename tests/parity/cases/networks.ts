import { type Case, type Names, one } from '../case.ts';

export const networks: readonly Case[] = [
  one('network create', 'POST', '/1.0/networks', ({ bridge, address }: Names) => ({
    name: bridge,
    description: 'd',
    config: { 'ipv4.address': address, 'ipv6.address': 'none', 'ipv4.nat': 'true' },
  })),
  one('network create twice', 'POST', '/1.0/networks', ({ bridge }: Names) => ({ name: bridge })),
  one('network create without name', 'POST', '/1.0/networks', {}),
  one('network create long name', 'POST', '/1.0/networks', { name: 'a-name-that-is-too-long' }),
  one('network create bad name', 'POST', '/1.0/networks', { name: 'a/b' }),
  one('network create unknown type', 'POST', '/1.0/networks', { name: 'nn', type: 'nonsense' }),
  one('network create bad key', 'POST', '/1.0/networks', {
    name: 'nn',
    config: { 'ipv4.address': 'none', 'ipv6.address': 'none', foo: 'bar' },
  }),
  one('network create bad value', 'POST', '/1.0/networks', { name: 'nn', config: { 'ipv4.address': 'bar' } }),
  one('networks full', 'GET', '/1.0/networks?recursion=1'),
  one('network', 'GET', ({ bridge }) => `/1.0/networks/${bridge}`),
  one('network of the host', 'GET', '/1.0/networks/lo'),
  one('network missing', 'GET', '/1.0/networks/nope'),
  one('network state', 'GET', ({ bridge }) => `/1.0/networks/${bridge}/state`),
  one('network state missing', 'GET', '/1.0/networks/nope/state'),
  one('network leases', 'GET', ({ bridge }) => `/1.0/networks/${bridge}/leases`),
  one('network leases of the host', 'GET', '/1.0/networks/lo/leases'),
  one('network patch', 'PATCH', ({ bridge }) => `/1.0/networks/${bridge}`, { config: { 'user.x': '1' } }),
  one('network put bad key', 'PUT', ({ bridge }) => `/1.0/networks/${bridge}`, { config: { foo: 'bar' } }),
  one('network put of the host', 'PUT', '/1.0/networks/lo', { config: {} }),
  one('network rename without name', 'POST', ({ bridge }) => `/1.0/networks/${bridge}`, { name: '' }),
  one('network of a missing member', 'GET', ({ bridge }) => `/1.0/networks/${bridge}?target=nope`),
  one('network delete missing', 'DELETE', '/1.0/networks/nope'),
];
