import { describe, expect, it } from 'vitest';
import { parseRawLxc } from './raw-lxc.ts';
import { seccompPolicy } from './seccomp.ts';
import { parseErrors } from './start.ts';
import { rootRanges } from './probe.ts';

describe('seccompPolicy', () => {
  it('denies host-wide calls by default', () => {
    expect(seccompPolicy({}, 'x86_64')).toBe(
      '2\ndenylist\nreject_force_umount\n[all]\nkexec_load errno 38\nopen_by_handle_at errno 38\n' +
        'init_module errno 38\nfinit_module errno 38\ndelete_module errno 38\n',
    );
  });

  it('follows the keys of the instance', () => {
    expect(seccompPolicy({ 'security.syscalls.deny_default': 'false' }, 'x86_64')).toBeUndefined();
    expect(seccompPolicy({ 'security.syscalls.deny_compat': 'true' }, 'x86_64')).toContain(
      '[x86_64]\ncompat_sys_rt_sigaction errno 38\n',
    );
    expect(seccompPolicy({ 'security.syscalls.deny': 'mount errno 1\n\nchroot' }, 'aarch64')).toMatch(
      /\[all\]\nmount errno 1\nchroot\n$/,
    );
    expect(seccompPolicy({ 'security.syscalls.allow': 'read\nwrite' }, 'x86_64')).toBe(
      '2\nallowlist\n[all]\nread\nwrite\n',
    );
    expect(() => seccompPolicy({ 'security.syscalls.deny_compat': 'true' }, 'aarch64')).toThrow('x86_64');
    expect(() => seccompPolicy({ 'security.syscalls.deny': 'mount $(id)' }, 'x86_64')).toThrow('Invalid seccomp rule');
  });
});

describe('parseRawLxc', () => {
  it('reads lines and refuses the keys the daemon needs', () => {
    expect(parseRawLxc('\n# x\n lxc.cap.drop=sys_nice\nlxc.net.0.ipv4.address = 10.0.0.2/24\n')).toEqual([
      { key: 'lxc.cap.drop', value: 'sys_nice' },
      { key: 'lxc.net.0.ipv4.address', value: '10.0.0.2/24' },
    ]);
    for (const bad of ['nonsense', 'lxc.rootfs.path = /', 'LXC.idmap = u 0 0 1', 'lxc.net.0.type = none', 'foo = bar'])
      expect(() => parseRawLxc(bad)).toThrow();
    expect(() => parseRawLxc('lxc.hook.post-stop =')).toThrow('not allowed');
  });
});

describe('parseErrors', () => {
  it('keeps the errors of a log, without positions', () => {
    const log = [
      'lxc-start c1 20260101000000.000 WARN     cgfsng - ../src/lxc/cgroups/cgfsng.c:fchowmodat:1619 - ignored',
      'lxc-start c1 20260101000000.001 ERROR    start - ../src/lxc/start.c:start:2197 - No such file - Failed to exec "/x"',
    ];
    expect(parseErrors(log.join('\n'))).toEqual(['start: No such file - Failed to exec "/x"']);
  });
});

describe('rootRanges', () => {
  it('reads the ranges of root only', () => {
    expect(rootRanges('lxd:1:2\nroot:100000:65536\n0:500000:10\nroot:x:1\n')).toEqual([
      { base: 100_000, size: 65_536 },
      { base: 500_000, size: 10 },
    ]);
  });
});
