import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ClientConnectionFailed } from '../errors.ts';
import { defaultCertificate, findSocket, parseEndpoint, readCertificate, socketCandidates } from './endpoint.ts';

describe('endpoints', () => {
  const folder = mkdtempSync(join(tmpdir(), 'keelson-endpoint-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each([
    ['unix:/run/x.socket', { kind: 'unix', socket: '/run/x.socket' }],
    ['unix:///run/x.socket', { kind: 'unix', socket: '/run/x.socket' }],
    ['http+unix:///run/x.socket', { kind: 'unix', socket: '/run/x.socket' }],
    ['http+unix://%2Frun%2Fx.socket', { kind: 'unix', socket: '/run/x.socket' }],
    ['/run/100%.socket', { kind: 'unix', socket: '/run/100%.socket' }],
    ['https://host:8443/', { kind: 'https', origin: 'https://host:8443' }],
    ['https://[::1]:8443', { kind: 'https', origin: 'https://[::1]:8443' }],
  ])('%s', (text, endpoint) => {
    expect(parseEndpoint(text)).toEqual(endpoint);
  });

  it.each(['http://host', 'ftp://x', 'host:8443', 'https://', ''])('refuses %j', (text) => {
    expect(() => parseEndpoint(text)).toThrow(ClientConnectionFailed);
  });

  it('looks in the order of the documentation', () => {
    expect(socketCandidates({ KEELSON_DIR: '/k', LXD_DIR: '/l' }).slice(0, 4)).toEqual([
      '/k/unix.socket',
      '/var/lib/keelson/unix.socket',
      '/l/unix.socket',
      '/var/lib/lxd/unix.socket',
    ]);
    const [lxd, keelson] = [join(folder, 'lxd'), join(folder, 'keelson')];
    for (const path of [lxd, keelson]) {
      mkdirSync(path);
      writeFileSync(join(path, 'unix.socket'), '');
    }
    expect(findSocket({ KEELSON_DIR: keelson, LXD_DIR: lxd })).toBe(join(keelson, 'unix.socket'));
  });

  it('reads certificates as text, as paths and from the configuration folder', () => {
    const [cert, key] = ['-----BEGIN CERTIFICATE-----\nA', '-----BEGIN PRIVATE KEY-----\nB'];
    writeFileSync(join(folder, 'client.crt'), cert);
    writeFileSync(join(folder, 'client.key'), key);
    expect(readCertificate({ cert, key })).toEqual({ cert, key });
    expect(readCertificate([join(folder, 'client.crt'), join(folder, 'client.key')])).toEqual({ cert, key });
    expect(readCertificate(`${cert}\n${key}`)).toEqual({ cert: `${cert}\n${key}`, key: `${cert}\n${key}` });
    expect(defaultCertificate({ KEELSON_CONF: folder })).toEqual({ cert, key });
    expect(defaultCertificate({ XDG_CONFIG_HOME: join(folder, 'none') })).toBeUndefined();
  });

  it('an unreadable certificate is named without its value', () => {
    expect(() => readCertificate('c2VjcmV0LWtleQ==')).toThrow('Cannot read the client certificate: ENOENT');
    expect(() => readCertificate('c2VjcmV0LWtleQ==')).not.toThrow('c2VjcmV0');
  });
});
