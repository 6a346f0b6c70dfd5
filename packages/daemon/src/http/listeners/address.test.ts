import { expect, test } from 'vitest';
import { formatAddress, parseListenAddress } from './address.ts';

test.each([
  [':8443', undefined, 8443],
  [':0', undefined, 0],
  ['10.0.0.1', '10.0.0.1', 8443],
  ['10.0.0.1:443', '10.0.0.1', 443],
  ['[::1]:443', '::1', 443],
  ['[::]', '::', 8443],
  ['::1', '::1', 8443],
  ['host.example:1', 'host.example', 1],
])('%s', (text, host, port) => {
  expect(parseListenAddress(text)).toEqual({ host, port });
});

test.each(['foo:bar:baz', ':99999', ':x', '[zz]:1', '[1.2.3.4]:1', 'a b:1', 'a:1:2'])('%s is refused', (text) => {
  expect(() => parseListenAddress(text)).toThrow('Invalid address');
});

test('IPv6 goes in brackets', () => {
  expect([formatAddress('::1', 1), formatAddress('10.0.0.1', 1)]).toEqual(['[::1]:1', '10.0.0.1:1']);
});
