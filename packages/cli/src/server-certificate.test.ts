import { expect, test } from 'vitest';
import { UsageError } from './command.ts';
import { parseToken, serverAddress } from './server-certificate.ts';

test.each([
  ['10.0.0.5', 'https://10.0.0.5:8443'],
  ['10.0.0.5:443', 'https://10.0.0.5:443'],
  ['box.example.org:9443', 'https://box.example.org:9443'],
  ['https://box.example.org', 'https://box.example.org:8443'],
  ['https://box.example.org:443/', 'https://box.example.org:443'],
  ['fd42::1', 'https://[fd42::1]:8443'],
  ['[fd42::1]:9443', 'https://[fd42::1]:9443'],
])('serverAddress %s', (text, address) => {
  expect(serverAddress(text)).toBe(address);
});

test.each(['http://10.0.0.5', 'ftp://x', 'a b', ''])('serverAddress refuses %j', (text) => {
  expect(() => serverAddress(text)).toThrow(UsageError);
});

test('parseToken reads what trust add prints, and nothing else', () => {
  const token = { client_name: 'a', fingerprint: 'f'.repeat(64), addresses: ['10.0.0.5:8443'], secret: 's' };
  const text = Buffer.from(JSON.stringify(token)).toString('base64');
  expect(parseToken(text)).toEqual({ addresses: token.addresses, fingerprint: token.fingerprint, text });
  expect(parseToken('10.0.0.5')).toBeUndefined();
  expect(parseToken(Buffer.from('null').toString('base64'))).toBeUndefined();
  expect(parseToken(Buffer.from('{"addresses":"x"}').toString('base64'))).toBeUndefined();
});
