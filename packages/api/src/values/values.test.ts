import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as v from './index.ts';

describe('bool', () => {
  test.each(['true', 'TRUE', '1', 'Yes', 'on'])('%s is true', (text) => {
    expect([v.isTrue(text), v.isFalse(text), v.bool.check(text)]).toEqual([true, false, undefined]);
  });

  test.each(['false', '0', 'no', 'OFF'])('%s is false', (text) => {
    expect([v.isTrue(text), v.isFalse(text), v.bool.check(text)]).toEqual([false, true, undefined]);
  });

  test('unset is neither', () => {
    expect([v.isTrue(undefined), v.isFalse(''), v.isTrue('y')]).toEqual([false, false, false]);
  });
});

describe('cpu', () => {
  test('a number is a count, anything else a set', () => {
    expect(v.parseCpuLimit('4')).toEqual({ kind: 'count', count: 4 });
    expect(v.parseCpuLimit('2-2')).toEqual({ kind: 'set', cpus: [2] });
    expect(v.parseCpuLimit('5,0-2,1')).toEqual({ kind: 'set', cpus: [0, 1, 2, 5] });
  });

  test('any set of CPUs reads back', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(1000), { minLength: 2 }), (cpus) => {
        expect(v.parseCpuLimit(cpus.join(','))).toEqual({ kind: 'set', cpus: cpus.toSorted((a, b) => a - b) });
      }),
    );
  });

  test.each(['0-', '-1', ',1', '1,', '3-1', 'a', '1-2-3', ' 1', '0-9999999'])('refuses %j', (text) => {
    expect(v.cpuLimit.check(text)).toBe('Invalid CPU limit syntax');
  });

  test('allowance is a share or a quota', () => {
    expect(v.parseCpuAllowance('50%')).toEqual({ kind: 'share', percent: 50 });
    expect(v.parseCpuAllowance('25ms/100ms')).toEqual({ kind: 'quota', quotaMs: 25, periodMs: 100 });
    expect(v.cpuAllowance.check('10ms')).toBe('Invalid allowance: 10ms');
  });
});

describe('schedule', () => {
  test.each([
    '@daily',
    '@hourly, @daily',
    '0 6 * * *',
    '*/5 * * * *',
    '0 6 * * *, 0 7 * * *',
    '0 0 * * MON',
    '0 0 1 JAN-MAR 1,3',
    '@never',
  ])('takes %s', (text) => {
    expect(v.schedule.check(text)).toBeUndefined();
  });

  test.each(['@foo', '0 6 * *', '0 6 * * * *', '@yearly @weekly', '@daily 0 6 * * *'])(
    'refuses the form of %s',
    (text) => {
      expect(v.schedule.check(text)).toContain('Schedule must be of the form');
    },
  );

  test.each([
    '60 * * * *',
    'MON 1 * * *',
    '* 24 * * *',
    '* * 0 * *',
    '* * * 13 *',
    '*/0 * * * *',
    '5-1 * * * *',
    '1-* * * * *',
  ])('refuses the field of %s', (text) => {
    expect(v.schedule.check(text)).toContain('Error parsing schedule');
  });

  test('splits into parts but keeps lists', () => {
    expect(v.scheduleParts('@hourly, 0 1,2 * * *')).toEqual(['@hourly', '0 1,2 * * *']);
  });
});

describe('addresses', () => {
  test('any IPv4 address reads back', () => {
    fc.assert(
      fc.property(fc.ipV4(), (text) => {
        const value = v.parseIpv4(text) ?? -1n;
        const parts = [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n);
        expect(parts.join('.')).toBe(text);
      }),
    );
  });

  test('any IPv6 address is one', () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        expect(v.parseIpv6(text)).toBeDefined();
      }),
    );
    expect(v.parseIpv6('fd42::1')).toBe(0xfd42_0000_0000_0000_0000_0000_0000_0001n);
    expect(v.parseIpv6('::ffff:10.0.0.1')).toBe(0xffff_0a00_0001n);
  });

  test.each(['10.1', '010.0.0.1', '256.0.0.1', '1.2.3.4.5', '0x7f.1', '', '1.2.3.-4'])(
    '%j is no IPv4 address',
    (text) => {
      expect(v.parseIpv4(text)).toBeUndefined();
    },
  );

  test.each(['', ':', ':::', '1::2::3', '1:2:3:4:5:6:7:8:9', 'fe80::1%eth0', 'g::', '::1.2.3'])(
    '%j is no IPv6 address',
    (text) => {
      expect(v.parseIpv6(text)).toBeUndefined();
    },
  );

  test('a subnet has no bit behind its prefix', () => {
    expect(v.parseCidr('10.0.0.0/24')).toMatchObject({ family: 4, prefix: 24, isNetwork: true });
    expect(v.parseCidr('10.0.0.1/24')).toMatchObject({ isNetwork: false });
    expect(v.parseCidr('10.0.0.1/33')).toBeUndefined();
    expect(v.parseCidr('fd42::/64')).toMatchObject({ family: 6, isNetwork: true });
  });

  test('ranges go upwards', () => {
    expect(v.ipv4Range.check('10.0.0.2-10.0.0.9')).toBeUndefined();
    expect(v.ipv4Range.check('10.0.0.9-10.0.0.2')).toBe('Start IP address must be lower than End IP address');
  });
});

describe('raw.lxc', () => {
  test.each(['lxc.cgroup.x = 1', '# note\n\nlxc.mount.entry = a b', 'lxc.net.0.ipv4.address = 10.0.0.2'])(
    'takes %j',
    (text) => {
      expect(v.rawLxc.check(text)).toBeUndefined();
    },
  );

  test.each([
    ['zork', 'Invalid raw.lxc line: zork'],
    ['lxc.log.file=/x', 'Setting lxc.logfile is not allowed'],
    ['lxc.net.0.type=veth', 'Only interface-specific ipv4/ipv6 lxc.net. keys are allowed'],
  ])('refuses %j', (text, message) => {
    expect(v.rawLxc.check(text)).toBe(message);
  });
});

describe('compression', () => {
  test.each(['gzip', 'zstd -3', 'xz -9 -T4', 'none'])('takes %s', (text) => {
    expect(v.compression.check(text)).toBeUndefined();
  });

  test.each(['zork', 'gzip -S /etc/passwd', 'zstd --output-dir-flat=/', 'gzip; id', 'bash -c id', ''])(
    'refuses %j',
    (text) => {
      expect(v.compression.check(text)).toMatch(/^Invalid (compression algorithm|options)/);
    },
  );
});

describe('mount options', () => {
  test.each(['discard', 'noatime,nodiratime', 'commit=30', 'compress=zstd:3', 'data=ordered, barrier=1'])(
    'takes %j',
    (text) => {
      expect(v.mountOptions.check(text)).toBeUndefined();
    },
  );

  test.each(['device=/dev/sda', 'noatime,logdev=/dev/sdb', 'journal_dev=0x801', 'journal_path=/x', 'dev', 'a\nb', ''])(
    'refuses %j',
    (text) => {
      expect(v.mountOptions.check(text)).toMatch(/^Invalid mount option/);
    },
  );
});
