import { describe, expect, test } from 'vitest';
import { describeMissing, kernelAtLeast, missingFeatures } from './host-checks.mjs';
import { controllersIn } from './host-facts.mjs';
import { availablePackages, missingPackages } from './packages.mjs';
import { planSubid } from './subid.mjs';

const options = ['OVERLAY_FS', 'USER_NS', 'VETH', 'BRIDGE', 'NF_TABLES'].map((name) => `CONFIG_${name}=m`);
const able = {
  platform: 'linux',
  arch: 'x64',
  uid: 0,
  kernel: '6.1.0-18-amd64',
  debian: true,
  kernelConfig: options.join('\n'),
  filesystems: '',
  maxUserNamespaces: '15000',
  controllers: ['cpu', 'memory', 'pids', 'io'],
};

describe('missingFeatures', () => {
  test('finds nothing missing on an able machine, nor where the kernel hides its configuration', () => {
    expect(missingFeatures(able)).toEqual([]);
    expect(missingFeatures({ ...able, kernelConfig: undefined })).toEqual([]);
  });

  test.each([
    [{ uid: 1000 }, 'root'],
    [{ platform: 'darwin' }, 'Linux'],
    [{ arch: 'riscv64' }, 'an x86-64 or arm64 processor'],
    [{ debian: false }, 'Debian'],
    [{ kernel: '5.10.0' }, 'idmapped mounts below overlayfs'],
    [{ kernelConfig: options.slice(1).join('\n') }, 'overlayfs'],
    [{ maxUserNamespaces: '0' }, 'user namespaces'],
    [{ controllers: ['cpu', 'pids'] }, 'cgroup controller memory'],
  ])('%j lacks %s', (change, what) => {
    const missing = missingFeatures({ ...able, ...change });
    expect(missing.map((entry) => entry.what)).toContain(what);
    expect(describeMissing(missing)).toMatch(/To get it: /u);
  });
});

test('kernelAtLeast compares numbers, not text', () => {
  expect(kernelAtLeast('6.1.0', 5, 19)).toBe(true);
  expect(kernelAtLeast('5.9.0', 5, 19)).toBe(false);
  expect(kernelAtLeast('5.19.1-x', 5, 19)).toBe(true);
});

test('controllersIn reads both cgroup layouts', () => {
  expect(controllersIn('cpu memory\n', '')).toEqual(['cpu', 'memory']);
  expect(controllersIn('', 'cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n')).toContain('pids');
});

test('missingPackages takes only fully installed packages as there', () => {
  expect(missingPackages(['a', 'b', 'c', 'd'], 'a ii \nb rc \nd hi \n')).toEqual(['b', 'c']);
});

test('availablePackages takes what the archive offers', () => {
  expect(availablePackages(['a', 'b'], '    a | 1.0-1 | http://mirror bookworm/main amd64 Packages\n')).toEqual(['a']);
});

describe('planSubid', () => {
  test('adds a range for root and keeps the rest', () => {
    expect(planSubid('')).toBe('root:100000:1000000000\n');
    expect(planSubid('root:100000:65536')).toBe('root:100000:65536\nroot:100000:1000000000\n');
  });

  test('stays above ranges of other users', () => {
    expect(planSubid('ann:100000:65536\n')).toBe('ann:100000:65536\nroot:196608:1000000000\n');
  });

  test('leaves a large enough range alone', () => {
    expect(planSubid('root:1000000:1000000000\n')).toBeUndefined();
  });
});
