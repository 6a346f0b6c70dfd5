import { describe, expect, test } from 'vitest';
import { completeLock, missingOptionals, platformOf, registryReferences } from './lockfile.mjs';
import { inStep } from './npm-step.mjs';

const lock = {
  packages: {
    '': {},
    'node_modules/tool': {
      version: '1.0.0',
      dev: true,
      optionalDependencies: { '@tool/linux-x64': '1.0.0', '@tool/darwin-arm64': '1.0.0' },
    },
    'node_modules/@tool/linux-x64': { version: '1.0.0', optional: true },
  },
};

test.each([
  ['@x/binding-linux-arm64-musl', { cpu: ['arm64'], os: ['linux'], libc: ['musl'] }],
  ['@x/binding-linux-arm-gnueabihf', { cpu: ['arm'], os: ['linux'], libc: ['glibc'] }],
  ['@x/binding-linux-arm-musleabihf', { cpu: ['arm'], os: ['linux'], libc: ['musl'] }],
  ['@x/win32-ia32', { cpu: ['ia32'], os: ['win32'] }],
  ['@x/plain', {}],
])('the platform of %s', (name, platform) => expect(platformOf(name)).toEqual(platform));

describe('completeLock', () => {
  test('adds the platforms the registry could not resolve, once', () => {
    expect(missingOptionals(lock)).toEqual([{ name: '@tool/darwin-arm64', version: '1.0.0', dev: true }]);
    const done = completeLock(lock);
    expect(done.packages['node_modules/@tool/darwin-arm64']).toEqual({
      version: '1.0.0',
      dev: true,
      optional: true,
      os: ['darwin'],
      cpu: ['arm64'],
    });
    expect(missingOptionals(done)).toEqual([]);
  });

  test('refuses a package whose name states no platform', () => {
    const odd = { packages: { a: { optionalDependencies: { odd: '1.0.0' } } } };
    expect(() => completeLock(odd)).toThrow('cannot tell the platform of optional package odd');
  });
});

test('registryReferences names what is bound to one registry', () => {
  const bound = { packages: { a: { resolved: 'https://host/a.tgz' }, b: { resolved: 'packages/b', link: true } } };
  expect(registryReferences(bound)).toEqual(['a']);
});

describe('inStep', () => {
  test('is true when all but foreign optional packages are installed', () => {
    const installed = { packages: { 'node_modules/tool': { version: '1.0.0' } } };
    expect(inStep(lock, installed)).toBe(true);
  });

  test('is false without node_modules, with another version, or with a package missing', () => {
    expect(inStep(lock, undefined)).toBe(false);
    expect(inStep(lock, { packages: { 'node_modules/tool': { version: '0.9.0' } } })).toBe(false);
    expect(inStep(lock, { packages: {} })).toBe(false);
  });
});
