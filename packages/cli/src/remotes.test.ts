import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { UsageError } from './command.ts';
import {
  BUILT_IN,
  configFolder,
  findRemote,
  pinCertificate,
  readRemotes,
  splitRemote,
  unpinCertificate,
  writeRemotes,
} from './remotes.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'keelson-remotes-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const office = { address: 'https://10.0.0.5:8443' };

describe('the file of remotes', () => {
  test('there is none: the built-in ones', () => {
    expect(readRemotes(folder)).toEqual(BUILT_IN);
    expect(findRemote('', folder)).toEqual({});
  });

  test('written and read again; only own ones are in the file, which nobody else may read', () => {
    writeRemotes({ default: 'office', remotes: { ...BUILT_IN.remotes, office } }, folder);
    expect(readRemotes(folder).remotes['office']).toEqual(office);
    expect(readFileSync(join(folder, 'config.yml'), 'utf8')).not.toContain('images');
    expect(statSync(join(folder, 'config.yml')).mode & 0o077).toBe(0);
    expect(findRemote('', folder)).toEqual({ endpoint: office.address });
  });

  test('a pinned certificate and a project go with the remote', () => {
    writeRemotes({ default: 'local', remotes: { office: { ...office, project: 'p1' } } }, folder);
    pinCertificate('office', 'PEM', folder);
    const verify = join(folder, 'servercerts', 'office.crt');
    expect(findRemote('office', folder)).toEqual({ endpoint: office.address, project: 'p1', verify });
    unpinCertificate('office', folder);
    expect(findRemote('office', folder)).toEqual({ endpoint: office.address, project: 'p1' });
  });

  test('an unknown remote names the known ones', () => {
    expect(() => findRemote('nope', folder)).toThrow(/"nope"; known are local, images/);
    expect(() => findRemote('constructor', folder)).toThrow(UsageError);
  });

  test('an image server is no place to work on', () => {
    expect(() => findRemote('images', folder)).toThrow(/only gives images/);
  });

  test('a broken file is named', () => {
    writeFileSync(join(folder, 'config.yml'), 'remotes: [\n');
    expect(() => readRemotes(folder)).toThrow(/config\.yml/);
  });
});

test.each([
  ['web', '', 'web'],
  ['office:web', 'office', 'web'],
  ['office:', 'office', ''],
  ['images:debian/12:x', 'images', 'debian/12:x'],
])('splitRemote %s', (word, remote, name) => {
  expect(splitRemote(word)).toEqual({ remote, name });
});

test('configFolder: KEELSON_CONF, then XDG_CONFIG_HOME', () => {
  expect(configFolder({ KEELSON_CONF: '/a', XDG_CONFIG_HOME: '/b' })).toBe('/a');
  expect(configFolder({ KEELSON_CONF: '', XDG_CONFIG_HOME: '/b' })).toBe('/b/keelson');
});
