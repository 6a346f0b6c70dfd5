import { quote, type ValueType } from './value-type.ts';

const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const uuid: ValueType = {
  name: 'UUID',
  check: (value) => (uuidPattern.test(value) ? undefined : 'Invalid UUID'),
};

/** Path that starts at the root and does not climb. */
export const absolutePath: ValueType = {
  name: 'absolute path',
  check: (value) => (value.startsWith('/') && !value.includes('\0') ? undefined : 'Must be absolute file path'),
};

/** Environment variables and other single-line texts: a line break would start a line of their own in a file. */
export const singleLine: ValueType = {
  name: 'single-line string',
  check: (value) => (/[\n\r\0]/.test(value) ? 'Environment variables cannot contain line breaks' : undefined),
};

const foreignOption = /^(dev|suid|journal_dev|device|logdev|rtdev|journal_path)$/;

/** Options for mounting a volume's file system. Who makes a volume names no other device or file of the host with them. */
export const mountOptions: ValueType = {
  name: 'mount options',
  check: (value) => {
    const options = value.split(',').map((option) => option.trim());
    const wrong = options.find(
      (option) => !/^[a-z]\w*(=[\w.:+-]+)?$/i.test(option) || foreignOption.test(option.split('=')[0] ?? ''),
    );
    return wrong === undefined ? undefined : `Invalid mount option ${quote(wrong)}`;
  },
};

/** Lines for the instance's LXC configuration; keys the daemon itself depends on are refused. */
export const rawLxc: ValueType = {
  name: 'LXC configuration lines',
  check: (value) => {
    for (const line of value.split('\n').map((text) => text.trim())) {
      const problem = line === '' || line.startsWith('#') ? undefined : lxcLineProblem(line);
      if (problem !== undefined) {
        return problem;
      }
    }
    return undefined;
  },
};

function lxcLineProblem(line: string): string | undefined {
  const split = line.indexOf('=');
  const key = line.slice(0, split).trim().toLowerCase();
  if (split < 1 || !/^lxc(\.[a-z0-9_.-]+)+$/.test(key)) {
    return `Invalid raw.lxc line: ${line}`;
  }
  const reserved: Readonly<Record<string, string>> = {
    'lxc.logfile': 'lxc.logfile',
    'lxc.log.file': 'lxc.logfile',
    'lxc.syslog': 'lxc.log.syslog',
    'lxc.log.syslog': 'lxc.log.syslog',
    'lxc.ephemeral': 'lxc.ephemeral',
    'lxc.prlimit.': 'lxc.prlimit',
  };
  for (const [start, name] of Object.entries(reserved)) {
    if (key === start || (start.endsWith('.') && key.startsWith(start))) {
      return name === 'lxc.prlimit'
        ? 'Process limits should be set via "limits.kernel.[limit name]" and not via "raw.lxc"'
        : `Setting ${name} is not allowed`;
    }
  }
  if (key.startsWith('lxc.net.') && !/^lxc\.net\.\d+\.(ipv4|ipv6)(\.|$)/.test(key)) {
    return 'Only interface-specific ipv4/ipv6 lxc.net. keys are allowed';
  }
  return undefined;
}

/** Compression of images and backups, run from a fixed list; options follow the name. */
export const compression: ValueType = {
  name: 'compression algorithm',
  check: (value) => {
    const [name = '', ...options] = value.trim().split(/\s+/);
    if (!['none', 'bzip2', 'gzip', 'lzma', 'pigz', 'squashfs', 'xz', 'zstd'].includes(name)) {
      return `Invalid compression algorithm ${quote(value)}`;
    }
    // Only levels and threads: any other option could name a file or a program.
    return options.every((option) =>
      /^(-\d{1,2}|-T\d{1,3}|--threads=\d{1,3}|--best|--fast|-comp|xz|gzip|zstd|lz4)$/.test(option),
    )
      ? undefined
      : `Invalid options for compression algorithm ${quote(value)}`;
  },
};

/** Four lower-case hex digits, as USB and PCI name vendors and products. */
export const hardwareId: ValueType = {
  name: 'four hex digits',
  check: (value) => (/^[0-9a-f]{4}$/.test(value) ? undefined : 'Invalid value, must be four lower case hex characters'),
};

export const pciAddress: ValueType = {
  name: 'PCI address',
  check: (value) =>
    /^([0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$/i.test(value) ? undefined : 'Invalid PCI address',
};

/** Disk limit: bytes per second, or operations per second such as `100iops`. */
export const diskLimit: ValueType = {
  name: 'size or iops',
  check: (value) => (/^\d+(iops|B| bytes|[kMGTPE]B|[KMGTPE]iB)?$/.test(value) ? undefined : `Invalid value: ${value}`),
};

const architectures = [
  'i686',
  'x86_64',
  'armv6l',
  'armv7l',
  'armv8l',
  'aarch64',
  'ppc',
  'ppc64',
  'ppc64le',
  's390x',
  'mips',
  'mips64',
  'riscv32',
  'riscv64',
];

export const architecture: ValueType = {
  name: 'architecture',
  check: (value) =>
    architectures.includes(value)
      ? undefined
      : `Invalid value ${quote(value)} (not one of [${architectures.join(' ')}])`,
};

/** Infiniband address: 20 bytes, or the last 8. */
export const infinibandAddress: ValueType = {
  name: 'Infiniband address',
  check: (value) =>
    /^[0-9a-f]{2}((:[0-9a-f]{2}){7}|(:[0-9a-f]{2}){19})$/i.test(value)
      ? undefined
      : 'Invalid value, must be either 8 or 20 bytes of hex separated by colons',
};
