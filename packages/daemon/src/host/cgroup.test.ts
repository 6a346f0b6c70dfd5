import { describe, expect, it } from 'vitest';
import { Cgroup, cgroupLayout, controllerVersion } from './cgroup.ts';
import { formatIpv6, forEachMessage, parseAddress, parseLink } from './netlink.ts';
import { parseStat } from './proc.ts';

const V1 = [
  '30 23 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct',
  '31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory',
  '32 23 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd',
];
const V2 = '33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate';

describe('cgroupLayout', () => {
  it('reads version 1 with controllers that share a mount', () => {
    const layout = cgroupLayout([...V1, V2].join('\n'), () => '\n');
    expect(layout.kind).toBe('hybrid');
    expect(new Cgroup(layout, 'a').folder('cpuacct')).toBe('/sys/fs/cgroup/cpu,cpuacct/a');
    expect(controllerVersion(layout, 'memory')).toBe(1);
    expect(controllerVersion(layout, 'pids')).toBeUndefined();
    expect(new Cgroup(layout, 'a').folder('freezer')).toBe('/sys/fs/cgroup/unified/a');
    expect(new Cgroup(layout, 'a').folders()).toHaveLength(4);
  });

  it('reads version 2', () => {
    const layout = cgroupLayout(
      '33 23 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw',
      () => 'cpuset cpu io memory pids\n',
    );
    expect(layout.kind).toBe('v2');
    expect(controllerVersion(layout, 'memory')).toBe(2);
    expect(new Cgroup(layout, 'a').folder('io')).toBe('/sys/fs/cgroup/a');
    expect(() => cgroupLayout('', () => '')).toThrow('No cgroup');
  });
});

describe('parseStat', () => {
  it('reads past any command name', () => {
    const rest = Array.from({ length: 18 }, (_, index) => String(index)).join(' ');
    expect(parseStat(`12 (a) R 9 (b)) S 7 ${rest} 99`)).toMatchObject({ state: 'S', parent: 7, startTime: '17' });
    expect(parseStat('')).toBeUndefined();
  });
});

describe('netlink', () => {
  const attribute = (type: number, value: Buffer): Buffer => {
    const padded = Buffer.alloc((4 + value.length + 3) & ~3);
    padded.writeUInt16LE(4 + value.length, 0);
    padded.writeUInt16LE(type, 2);
    value.copy(padded, 4);
    return padded;
  };
  const u32 = (value: number): Buffer => {
    const buffer = Buffer.alloc(4);
    buffer.writeUInt32LE(value);
    return buffer;
  };

  it('parses links and addresses', () => {
    const header = Buffer.alloc(16);
    header.writeInt32LE(3, 4);
    header.writeUInt32LE(0x1003, 8);
    const parts = [
      attribute(3, Buffer.from('eth0\0')),
      attribute(1, Buffer.from([0, 22, 62, 1, 2, 255])),
      attribute(4, u32(1400)),
    ];
    expect(parseLink(Buffer.concat([header, ...parts, attribute(5, u32(12))]))).toMatchObject({
      ...{ index: 3, name: 'eth0', hwaddr: '00:16:3e:01:02:ff', mtu: 1400, peerIndex: 12, flags: 0x1003 },
    });
    const address = Buffer.concat([Buffer.from([2, 24, 0, 0]), u32(3), attribute(2, Buffer.from([10, 0, 0, 9]))]);
    expect(parseAddress(address)).toEqual({
      index: 3,
      address: { family: 'inet', address: '10.0.0.9', prefix: 24, scope: 'global' },
    });
  });

  it('refuses a message that is cut off', () => {
    const message = Buffer.alloc(16);
    message.writeUInt32LE(40, 0);
    expect(() => forEachMessage(message, () => undefined)).toThrow('cut off');
  });

  it('writes IPv6 addresses in their short form', () => {
    const bytes = (hex: string) => Buffer.from(hex, 'hex');
    expect(formatIpv6(bytes('00000000000000000000000000000001'))).toBe('::1');
    expect(formatIpv6(bytes('fd420000000000000000000000000009'))).toBe('fd42::9');
    expect(formatIpv6(bytes('20010db8000000010001000100010001'))).toBe('2001:db8:0:1:1:1:1:1');
    expect(formatIpv6(bytes('00000000000000000000000000000000'))).toBe('::');
  });
});
