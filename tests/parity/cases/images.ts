import { type Case, type Names, one } from '../case.ts';

export const images: readonly Case[] = [
  one('images full', 'GET', '/1.0/images?recursion=1'),
  one('image', 'GET', ({ fingerprint }) => `/1.0/images/${fingerprint}`),
  one('image by prefix', 'GET', ({ fingerprint }) => `/1.0/images/${fingerprint.slice(0, 10)}`),
  one('image missing', 'GET', '/1.0/images/abcdef'),
  one('images by filter', 'GET', '/1.0/images?recursion=1&filter=properties.os%20eq%20Tiny'),
  one('image put', 'PUT', ({ fingerprint }) => `/1.0/images/${fingerprint}`, {
    public: true,
    properties: { os: 'Tiny' },
    profiles: ['default'],
  }),
  one('image patch', 'PATCH', ({ fingerprint }) => `/1.0/images/${fingerprint}`, {
    properties: { os: 'Tiny', a: 'b' },
  }),
  one('image patch missing', 'PATCH', '/1.0/images/abcdef', { public: true }),
  one('image alias create', 'POST', '/1.0/images/aliases', ({ fingerprint }: Names) => ({
    name: 'parity',
    target: fingerprint,
  })),
  one('image alias create twice', 'POST', '/1.0/images/aliases', ({ fingerprint }: Names) => ({
    name: 'parity',
    target: fingerprint,
  })),
  one('image alias create without target', 'POST', '/1.0/images/aliases', { name: 'x' }),
  one('image alias create missing target', 'POST', '/1.0/images/aliases', { name: 'x', target: 'abcdef' }),
  one('image aliases', 'GET', '/1.0/images/aliases'),
  one('image aliases full', 'GET', '/1.0/images/aliases?recursion=1'),
  one('image alias', 'GET', '/1.0/images/aliases/parity'),
  one('image alias missing', 'GET', '/1.0/images/aliases/nope'),
  one('image alias put', 'PUT', '/1.0/images/aliases/parity', ({ fingerprint }: Names) => ({
    description: 'e',
    target: fingerprint,
  })),
  one('image alias rename', 'POST', '/1.0/images/aliases/parity', { name: 'parity2' }),
  one('image alias delete', 'DELETE', '/1.0/images/aliases/parity2'),
  one('image alias delete missing', 'DELETE', '/1.0/images/aliases/parity2'),
  one('image secret', 'POST', ({ fingerprint }) => `/1.0/images/${fingerprint}/secret`, undefined, { loose: true }),
  one('image create from nothing', 'POST', '/1.0/images', { source: {} }),
  one('image create from a missing instance', 'POST', '/1.0/images', { source: { type: 'instance', name: 'nope' } }),
  one('image delete missing', 'DELETE', '/1.0/images/abcdef'),
];
