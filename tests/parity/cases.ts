/** Names that differ between the two servers, because they share one host. */
export interface Names {
  readonly bridge: string;
  readonly address: string;
  readonly fingerprint: string;
  /** Folder that exists, for disk devices. */
  readonly folder: string;
}

/** One request that both servers get, in order. */
export interface Case {
  /** Unique; the differences table refers to it. */
  readonly name: string;
  readonly method: string;
  path(names: Names): string;
  body?(names: Names): unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Compare only status and error, not the record's structure. */
  readonly loose?: boolean;
  /** Part of the record whose values, not only their structure, must agree. */
  values?(record: unknown): unknown;
}

type Text = string | ((names: Names) => string);

function one(name: string, method: string, path: Text, body?: unknown, more: Partial<Case> = {}): Case {
  return {
    name,
    method,
    path: typeof path === 'string' ? () => path : path,
    ...(body === undefined
      ? {}
      : { body: typeof body === 'function' ? (body as (names: Names) => unknown) : () => body }),
    ...more,
  };
}

/** Config a client sets, without what servers draw at random, and devices. */
const settings = {
  values(record: unknown): unknown {
    const { config = {}, devices = {} } = record as { config?: Record<string, string>; devices?: object };
    return [Object.entries(config).filter(([key]) => key.startsWith('user.')), devices];
  },
};

const root = { type: 'disk', path: '/', pool: 'p1' };
const none = (name: string, more: object = {}): object => ({
  name,
  source: { type: 'none' },
  profiles: [],
  devices: { root },
  ...more,
});

const server: readonly Case[] = [
  one('root', 'GET', '/'),
  one('server', 'GET', '/1.0', undefined, { loose: true }),
  one('server of a missing member', 'GET', '/1.0/resources?target=nope'),
  one('unknown version', 'GET', '/2.0'),
  one('unknown path', 'GET', '/1.0/nonsense'),
  one('wrong method', 'POST', '/1.0/events'),
  one('server patch unknown key', 'PATCH', '/1.0', { config: { 'no.such': '1' } }),
  one('server patch bad value', 'PATCH', '/1.0', { config: { 'images.auto_update_interval': 'x' } }),
  one('server patch', 'PATCH', '/1.0', { config: { 'user.parity': '1' } }),
  one('server put wrong type', 'PUT', '/1.0', { config: { 'core.https_address': 5 } }),
  one('operations', 'GET', '/1.0/operations', undefined, { loose: true }),
  one('operation missing', 'GET', '/1.0/operations/00000000-0000-4000-8000-000000000000'),
  one('operation cancel missing', 'DELETE', '/1.0/operations/00000000-0000-4000-8000-000000000000'),
  one('operation wait missing', 'GET', '/1.0/operations/00000000-0000-4000-8000-000000000000/wait?timeout=0'),
  one(
    'operation websocket without one',
    'GET',
    '/1.0/operations/00000000-0000-4000-8000-000000000000/websocket?secret=x',
  ),
  one('certificates', 'GET', '/1.0/certificates'),
  one('certificates full', 'GET', '/1.0/certificates?recursion=1'),
  one('certificate missing', 'GET', '/1.0/certificates/abcdef'),
  one('certificate delete missing', 'DELETE', '/1.0/certificates/abcdef'),
  one('certificate create without data', 'POST', '/1.0/certificates', { type: 'client' }),
  one('certificate create bad data', 'POST', '/1.0/certificates', { type: 'client', certificate: 'x' }),
  one('certificate create bad type', 'POST', '/1.0/certificates', { type: 'none', certificate: 'x' }),
  one('resources', 'GET', '/1.0/resources', undefined, { loose: true }),
  one('projects', 'GET', '/1.0/projects'),
  one('projects full', 'GET', '/1.0/projects?recursion=1'),
  one('project', 'GET', '/1.0/projects/default'),
  one('project missing', 'GET', '/1.0/projects/nope'),
  one('project create without name', 'POST', '/1.0/projects', {}),
  one('project create bad name', 'POST', '/1.0/projects', { name: 'a/b' }),
  one('project create bad key', 'POST', '/1.0/projects', { name: 'pp', config: { foo: 'bar' } }),
  one('project create', 'POST', '/1.0/projects', { name: 'pp', config: { 'features.images': 'false' } }),
  one('project create twice', 'POST', '/1.0/projects', { name: 'pp' }),
  one('project patch', 'PATCH', '/1.0/projects/pp', { description: 'x' }),
  one('project state', 'GET', '/1.0/projects/pp/state'),
  one('project delete default', 'DELETE', '/1.0/projects/default'),
  one('project delete', 'DELETE', '/1.0/projects/pp'),
  one('instances of a missing project', 'GET', '/1.0/instances?project=nope'),
];

const profiles: readonly Case[] = [
  one('profiles', 'GET', '/1.0/profiles'),
  one('profiles full', 'GET', '/1.0/profiles?recursion=1'),
  one('profile create', 'POST', '/1.0/profiles', { name: 'a', config: { 'user.x': '1' }, description: 'd' }),
  one('profile create twice', 'POST', '/1.0/profiles', { name: 'a' }),
  one('profile create without name', 'POST', '/1.0/profiles', {}),
  one('profile create bad name', 'POST', '/1.0/profiles', { name: 'a/b' }),
  one('profile create bad key', 'POST', '/1.0/profiles', { name: 'b', config: { 'no.such': '1' } }),
  one('profile create bad value', 'POST', '/1.0/profiles', { name: 'b', config: { 'limits.memory': 'much' } }),
  one('profile create bad type', 'POST', '/1.0/profiles', { name: 5 }),
  one('profile create bad device', 'POST', '/1.0/profiles', { name: 'b', devices: { x: { type: 'nonsense' } } }),
  one('profile create no json', 'POST', '/1.0/profiles', 'nonsense', {
    headers: { 'Content-Type': 'application/json' },
  }),
  one('profile', 'GET', '/1.0/profiles/a'),
  one('profile trailing slash', 'GET', '/1.0/profiles/a/', undefined, { loose: true }),
  one('profile missing', 'GET', '/1.0/profiles/nope'),
  one('profile put', 'PUT', '/1.0/profiles/a', { config: { 'user.y': '2' }, description: 'e' }),
  one('profile put stale', 'PUT', '/1.0/profiles/a', { config: {} }, { headers: { 'If-Match': 'abc' } }),
  one('profile put bad key', 'PUT', '/1.0/profiles/a', { config: { 'no.such': '1' } }),
  one('profile patch', 'PATCH', '/1.0/profiles/a', { config: { 'user.z': '3' } }),
  one('profile put with empty values', 'PUT', '/1.0/profiles/a', {
    config: { 'user.x': '', 'user.y': '2', 'user.z': '3' },
    devices: { d: { type: 'disk', source: '/tmp', path: '/d', readonly: '' } },
  }),
  one('profile without empty values', 'GET', '/1.0/profiles/a', undefined, settings),
  one('profile patch with an empty value', 'PATCH', '/1.0/profiles/a', { config: { 'user.y': '' } }),
  one('profile without an empty value', 'GET', '/1.0/profiles/a', undefined, settings),
  one('profile patch missing', 'PATCH', '/1.0/profiles/nope', { config: {} }),
  one('profile rename', 'POST', '/1.0/profiles/a', { name: 'c' }),
  one('profile rename missing', 'POST', '/1.0/profiles/nope', { name: 'd' }),
  one('profile rename default', 'POST', '/1.0/profiles/default', { name: 'd' }),
  one('profile delete default', 'DELETE', '/1.0/profiles/default'),
  one('profile delete', 'DELETE', '/1.0/profiles/c'),
  one('profile delete missing', 'DELETE', '/1.0/profiles/c'),
];

const storage: readonly Case[] = [
  one('pools empty', 'GET', '/1.0/storage-pools'),
  one('pool create', 'POST', '/1.0/storage-pools', { name: 'p1', driver: 'dir', description: 'd', config: {} }),
  one('pool create twice', 'POST', '/1.0/storage-pools', { name: 'p1', driver: 'dir' }),
  one('pool create without name', 'POST', '/1.0/storage-pools', { driver: 'dir' }),
  one('pool create without driver', 'POST', '/1.0/storage-pools', { name: 'p2' }),
  one('pool create bad name', 'POST', '/1.0/storage-pools', { name: 'p/2', driver: 'dir' }),
  one('pool create unknown driver', 'POST', '/1.0/storage-pools', { name: 'p2', driver: 'nonsense' }),
  one('pool create bad key', 'POST', '/1.0/storage-pools', { name: 'p2', driver: 'dir', config: { foo: 'bar' } }),
  one('pool create bad value', 'POST', '/1.0/storage-pools', { name: 'p2', driver: 'btrfs', config: { size: 'much' } }),
  one('pool create bad source', 'POST', '/1.0/storage-pools', {
    name: 'p2',
    driver: 'dir',
    config: { source: '/no/such' },
  }),
  one('pools', 'GET', '/1.0/storage-pools'),
  one('pools full', 'GET', '/1.0/storage-pools?recursion=1'),
  one('pool', 'GET', '/1.0/storage-pools/p1'),
  one('pool missing', 'GET', '/1.0/storage-pools/nope'),
  one('pool patch', 'PATCH', '/1.0/storage-pools/p1', { config: { 'rsync.compression': 'false' } }),
  one('pool put', 'PUT', '/1.0/storage-pools/p1', { config: {}, description: 'e' }, { loose: true }),
  one('pool put bad key', 'PUT', '/1.0/storage-pools/p1', { config: { foo: 'bar' } }),
  one('pool put missing', 'PUT', '/1.0/storage-pools/nope', { config: {} }),
  one('pool resources', 'GET', '/1.0/storage-pools/p1/resources'),
  one('pool resources missing', 'GET', '/1.0/storage-pools/nope/resources'),
  one('pool of a missing member', 'GET', '/1.0/storage-pools/p1?target=nope'),
  one('pool resources of this member', 'GET', '/1.0/storage-pools/p1/resources?target=none'),
  one('pool create on a missing member', 'POST', '/1.0/storage-pools?target=nope', { name: 'p2', driver: 'dir' }),
  one('pool delete missing', 'DELETE', '/1.0/storage-pools/nope'),
  one('second pool', 'POST', '/1.0/storage-pools', { name: 'p3', driver: 'dir' }),
  one('second pool delete', 'DELETE', '/1.0/storage-pools/p3'),
];

const networks: readonly Case[] = [
  one('network create', 'POST', '/1.0/networks', ({ bridge, address }: Names) => ({
    name: bridge,
    description: 'd',
    config: { 'ipv4.address': address, 'ipv6.address': 'none', 'ipv4.nat': 'true' },
  })),
  one('network create twice', 'POST', '/1.0/networks', ({ bridge }: Names) => ({ name: bridge })),
  one('network create without name', 'POST', '/1.0/networks', {}),
  one('network create long name', 'POST', '/1.0/networks', { name: 'a-name-that-is-too-long' }),
  one('network create bad name', 'POST', '/1.0/networks', { name: 'a/b' }),
  one('network create unknown type', 'POST', '/1.0/networks', { name: 'nn', type: 'nonsense' }),
  one('network create bad key', 'POST', '/1.0/networks', {
    name: 'nn',
    config: { 'ipv4.address': 'none', 'ipv6.address': 'none', foo: 'bar' },
  }),
  one('network create bad value', 'POST', '/1.0/networks', { name: 'nn', config: { 'ipv4.address': 'bar' } }),
  one('networks full', 'GET', '/1.0/networks?recursion=1'),
  one('network', 'GET', ({ bridge }) => `/1.0/networks/${bridge}`),
  one('network of the host', 'GET', '/1.0/networks/lo'),
  one('network missing', 'GET', '/1.0/networks/nope'),
  one('network state', 'GET', ({ bridge }) => `/1.0/networks/${bridge}/state`),
  one('network state missing', 'GET', '/1.0/networks/nope/state'),
  one('network leases', 'GET', ({ bridge }) => `/1.0/networks/${bridge}/leases`),
  one('network leases of the host', 'GET', '/1.0/networks/lo/leases'),
  one('network patch', 'PATCH', ({ bridge }) => `/1.0/networks/${bridge}`, { config: { 'user.x': '1' } }),
  one('network put bad key', 'PUT', ({ bridge }) => `/1.0/networks/${bridge}`, { config: { foo: 'bar' } }),
  one('network put of the host', 'PUT', '/1.0/networks/lo', { config: {} }),
  one('network rename without name', 'POST', ({ bridge }) => `/1.0/networks/${bridge}`, { name: '' }),
  one('network of a missing member', 'GET', ({ bridge }) => `/1.0/networks/${bridge}?target=nope`),
  one('network delete missing', 'DELETE', '/1.0/networks/nope'),
];

const images: readonly Case[] = [
  one('images full', 'GET', '/1.0/images?recursion=1'),
  one('image', 'GET', ({ fingerprint }) => `/1.0/images/${fingerprint}`),
  one('image by prefix', 'GET', ({ fingerprint }) => `/1.0/images/${fingerprint.slice(0, 10)}`),
  one('image missing', 'GET', '/1.0/images/abcdef'),
  one('images by filter', 'GET', '/1.0/images?recursion=1&filter=properties.os%20eq%20Tiny'),
  one('image put', 'PUT', ({ fingerprint }) => `/1.0/images/${fingerprint}`, {
    public: true,
    properties: { os: 'Tiny' },
    profiles: ['default'],
  }),
  one('image patch', 'PATCH', ({ fingerprint }) => `/1.0/images/${fingerprint}`, {
    properties: { os: 'Tiny', a: 'b' },
  }),
  one('image patch missing', 'PATCH', '/1.0/images/abcdef', { public: true }),
  one('image alias create', 'POST', '/1.0/images/aliases', ({ fingerprint }: Names) => ({
    name: 'parity',
    target: fingerprint,
  })),
  one('image alias create twice', 'POST', '/1.0/images/aliases', ({ fingerprint }: Names) => ({
    name: 'parity',
    target: fingerprint,
  })),
  one('image alias create without target', 'POST', '/1.0/images/aliases', { name: 'x' }),
  one('image alias create missing target', 'POST', '/1.0/images/aliases', { name: 'x', target: 'abcdef' }),
  one('image aliases', 'GET', '/1.0/images/aliases'),
  one('image aliases full', 'GET', '/1.0/images/aliases?recursion=1'),
  one('image alias', 'GET', '/1.0/images/aliases/parity'),
  one('image alias missing', 'GET', '/1.0/images/aliases/nope'),
  one('image alias put', 'PUT', '/1.0/images/aliases/parity', ({ fingerprint }: Names) => ({
    description: 'e',
    target: fingerprint,
  })),
  one('image alias rename', 'POST', '/1.0/images/aliases/parity', { name: 'parity2' }),
  one('image alias delete', 'DELETE', '/1.0/images/aliases/parity2'),
  one('image alias delete missing', 'DELETE', '/1.0/images/aliases/parity2'),
  one('image secret', 'POST', ({ fingerprint }) => `/1.0/images/${fingerprint}/secret`, undefined, { loose: true }),
  one('image create from nothing', 'POST', '/1.0/images', { source: {} }),
  one('image create from a missing instance', 'POST', '/1.0/images', { source: { type: 'instance', name: 'nope' } }),
  one('image delete missing', 'DELETE', '/1.0/images/abcdef'),
];

const instanceErrors: readonly Case[] = [
  one('instances empty', 'GET', '/1.0/instances'),
  one('instance missing', 'GET', '/1.0/instances/nope'),
  one('instance state missing', 'GET', '/1.0/instances/nope/state'),
  one('instance start missing', 'PUT', '/1.0/instances/nope/state', { action: 'start' }),
  one('instance delete missing', 'DELETE', '/1.0/instances/nope'),
  one('instance create bad name', 'POST', '/1.0/instances', none('a_b')),
  one('instance create slash', 'POST', '/1.0/instances', none('a/b')),
  one('instance create long name', 'POST', '/1.0/instances', none('a'.repeat(64))),
  one('instance create bad key', 'POST', '/1.0/instances', none('bad', { config: { 'no.such': '1' } })),
  one('instance create bad value', 'POST', '/1.0/instances', none('bad', { config: { 'limits.cpu': 'many' } })),
  one(
    'instance create bad device',
    'POST',
    '/1.0/instances',
    none('bad', { devices: { root, x: { type: 'nonsense' } } }),
  ),
  one('instance create without root', 'POST', '/1.0/instances', {
    name: 'bad',
    source: { type: 'none' },
    profiles: [],
  }),
  one(
    'instance create missing pool',
    'POST',
    '/1.0/instances',
    none('bad', { devices: { root: { ...root, pool: 'nope' } } }),
  ),
  one('instance create missing profile', 'POST', '/1.0/instances', none('bad', { profiles: ['nope'] })),
  one('instance create missing image', 'POST', '/1.0/instances', {
    name: 'bad',
    source: { type: 'image', alias: 'nope' },
    profiles: [],
    devices: { root },
  }),
  one('instance create missing fingerprint', 'POST', '/1.0/instances', {
    name: 'bad',
    source: { type: 'image', fingerprint: 'abcdef' },
    profiles: [],
    devices: { root },
  }),
  one('instance create from a missing instance', 'POST', '/1.0/instances', {
    name: 'bad',
    source: { type: 'copy', source: 'nope' },
  }),
  one('instance create bad source', 'POST', '/1.0/instances', { name: 'bad', source: { type: 'nonsense' } }),
  one('instance create wrong type', 'POST', '/1.0/instances', { name: 'bad', config: [] }),
];

const instances: readonly Case[] = [
  one('instance create on a missing member', 'POST', '/1.0/instances?target=nope', none('n0')),
  one('instance create none', 'POST', '/1.0/instances', none('n1', { description: 'd', config: { 'user.x': '1' } })),
  one('instance create taken', 'POST', '/1.0/instances', none('n1')),
  one('instance none', 'GET', '/1.0/instances/n1'),
  one('instance none state', 'GET', '/1.0/instances/n1/state', undefined, { loose: true }),
  one('instance none put', 'PUT', '/1.0/instances/n1', {
    config: { 'user.x': '2' },
    devices: { root },
    profiles: [],
    description: 'e',
  }),
  one('instance none patch bad key', 'PATCH', '/1.0/instances/n1', { config: { 'no.such': '1' } }),
  one('instance none patch missing network', 'PATCH', '/1.0/instances/n1', {
    devices: { eth0: { type: 'nic', network: 'nope' } },
  }),
  one('instance none patch', 'PATCH', '/1.0/instances/n1', { config: { 'user.y': '1' } }),
  one('instance none patch with empty values', 'PATCH', '/1.0/instances/n1', {
    config: { 'user.x': '', 'limits.cpu': '' },
    devices: { root: { ...root, size: '' } },
  }),
  one('instance none without empty values', 'GET', '/1.0/instances/n1', undefined, settings),
  one('instance none put with empty values', 'PUT', '/1.0/instances/n1', {
    config: { 'user.x': '', 'user.y': '1' },
    devices: { root: { ...root, size: '' } },
    profiles: [],
  }),
  one('instance none still without empty values', 'GET', '/1.0/instances/n1', undefined, settings),
  one('log of an instance that never started', 'GET', '/1.0/instances/n1/logs/lxc.log', undefined, { loose: true }),
  one('instance none stop', 'PUT', '/1.0/instances/n1/state', { action: 'stop' }),
  one('instance none freeze', 'PUT', '/1.0/instances/n1/state', { action: 'freeze' }),
  one('instance bad action', 'PUT', '/1.0/instances/n1/state', { action: 'nonsense' }),
  one('instance none exec', 'POST', '/1.0/instances/n1/exec', { command: ['true'] }),
  one('instance none rename', 'POST', '/1.0/instances/n1', { name: 'n2' }),
  one('instance none delete', 'DELETE', '/1.0/instances/n2'),
  one('instance create', 'POST', '/1.0/instances', ({ fingerprint, bridge }: Names) => ({
    name: 'c1',
    profiles: [],
    source: { type: 'image', fingerprint },
    devices: { root, eth0: { type: 'nic', network: bridge, name: 'eth0' } },
  })),
  one('instance', 'GET', '/1.0/instances/c1'),
  one('instance start', 'PUT', '/1.0/instances/c1/state', { action: 'start' }),
  one('instance start twice', 'PUT', '/1.0/instances/c1/state', { action: 'start' }),
  one('instances', 'GET', '/1.0/instances'),
  one('instances full', 'GET', '/1.0/instances?recursion=1'),
  one('instances with state', 'GET', '/1.0/instances?recursion=2'),
  one('instances by filter', 'GET', '/1.0/instances?recursion=1&filter=status%20eq%20Running'),
  one('instances by wrong filter', 'GET', '/1.0/instances?recursion=1&filter=status%20is%20Running'),
  one('containers', 'GET', '/1.0/containers'),
  one('virtual machines', 'GET', '/1.0/virtual-machines'),
  one('instance state', 'GET', '/1.0/instances/c1/state'),
  one('instance state bad action', 'PUT', '/1.0/instances/c1/state', { action: 'jump' }),
  one('instance delete running', 'DELETE', '/1.0/instances/c1'),
  one('instance rename running', 'POST', '/1.0/instances/c1', { name: 'c9' }),
  one('instance exec recorded', 'POST', '/1.0/instances/c1/exec', {
    command: ['sh', '-c', 'exit 3'],
    'record-output': true,
    'wait-for-websocket': false,
  }),
  one(
    'instance exec websocket',
    'POST',
    '/1.0/instances/c1/exec',
    { command: ['true'], 'wait-for-websocket': true },
    { loose: true },
  ),
  one('instance exec without command', 'POST', '/1.0/instances/c1/exec', { command: [] }, { loose: true }),
  one('instance exec wrong type', 'POST', '/1.0/instances/c1/exec', { command: 'true' }),
  one('instance freeze', 'PUT', '/1.0/instances/c1/state', { action: 'freeze' }),
  one('instance freeze twice', 'PUT', '/1.0/instances/c1/state', { action: 'freeze' }),
  one('instance unfreeze', 'PUT', '/1.0/instances/c1/state', { action: 'unfreeze' }),
  one('instance live limit', 'PATCH', '/1.0/instances/c1', { config: { 'limits.processes': '300' } }),
  one('instance disk missing source', 'PATCH', '/1.0/instances/c1', {
    devices: { d: { type: 'disk', path: '/d', source: '/no/such' } },
  }),
  one('instance disk', 'PATCH', '/1.0/instances/c1', ({ folder }: Names) => ({
    devices: { d: { type: 'disk', path: '/d', source: folder } },
  })),
  one('pool delete in use', 'DELETE', '/1.0/storage-pools/p1'),
  one('network delete in use', 'DELETE', ({ bridge }) => `/1.0/networks/${bridge}`),
  one('network rename in use', 'POST', ({ bridge }) => `/1.0/networks/${bridge}`, { name: 'other0' }),
  one('pool used', 'GET', '/1.0/storage-pools/p1'),
];

const parts: readonly Case[] = [
  one('file missing', 'GET', '/1.0/instances/c1/files?path=/no/such'),
  one('file without path', 'GET', '/1.0/instances/c1/files', undefined, { loose: true }),
  one('file put', 'POST', '/1.0/instances/c1/files?path=/tmp/f', 'hello', {
    headers: {
      'Content-Type': 'application/octet-stream',
      'X-LXD-type': 'file',
      'X-LXD-mode': '0640',
      'X-LXD-uid': '5',
      'X-LXD-gid': '6',
    },
  }),
  one('folder put', 'POST', '/1.0/instances/c1/files?path=/tmp/d', '', {
    headers: { 'X-LXD-type': 'directory', 'Content-Type': 'application/octet-stream' },
  }),
  one('folder list', 'GET', '/1.0/instances/c1/files?path=/tmp'),
  one('file delete', 'DELETE', '/1.0/instances/c1/files?path=/tmp/f'),
  one('file delete missing', 'DELETE', '/1.0/instances/c1/files?path=/tmp/f'),
  one('metadata', 'GET', '/1.0/instances/c1/metadata'),
  one('templates', 'GET', '/1.0/instances/c1/metadata/templates'),
  one('template', 'GET', '/1.0/instances/c1/metadata/templates?path=hostname.tpl', undefined, { loose: true }),
  one('template missing', 'GET', '/1.0/instances/c1/metadata/templates?path=nope.tpl'),
  one('logs', 'GET', '/1.0/instances/c1/logs', undefined, { loose: true }),
  one('log missing', 'GET', '/1.0/instances/c1/logs/nope.log'),
  one('snapshots empty', 'GET', '/1.0/instances/c1/snapshots'),
  one('snapshot create', 'POST', '/1.0/instances/c1/snapshots', { name: 's1' }),
  one('snapshot create taken', 'POST', '/1.0/instances/c1/snapshots', { name: 's1' }),
  one('snapshot create bad name', 'POST', '/1.0/instances/c1/snapshots', { name: 'a/b' }),
  one('snapshots', 'GET', '/1.0/instances/c1/snapshots'),
  one('snapshots full', 'GET', '/1.0/instances/c1/snapshots?recursion=1'),
  one('snapshot', 'GET', '/1.0/instances/c1/snapshots/s1'),
  one('snapshot missing', 'GET', '/1.0/instances/c1/snapshots/nope'),
  one('snapshot put', 'PUT', '/1.0/instances/c1/snapshots/s1', { expires_at: '2090-01-01T00:00:00Z' }),
  one('snapshot rename', 'POST', '/1.0/instances/c1/snapshots/s1', { name: 's2' }),
  one('snapshot rename missing', 'POST', '/1.0/instances/c1/snapshots/nope', { name: 's3' }),
  one('instance with snapshots', 'GET', '/1.0/instances/c1?recursion=1'),
  one('restore missing', 'PUT', '/1.0/instances/c1', { restore: 'nope' }),
  one('restore', 'PUT', '/1.0/instances/c1', { restore: 's2' }),
  one('snapshot delete', 'DELETE', '/1.0/instances/c1/snapshots/s2'),
  one('snapshot delete missing', 'DELETE', '/1.0/instances/c1/snapshots/s2'),
  one('instance stop', 'PUT', '/1.0/instances/c1/state', { action: 'stop', force: true }),
  one('instance stop twice', 'PUT', '/1.0/instances/c1/state', { action: 'stop', force: true }),
  one('instance copy', 'POST', '/1.0/instances', { name: 'c2', source: { type: 'copy', source: 'c1' } }),
  one('instance copied', 'GET', '/1.0/instances/c2'),
  one('instance delete copy', 'DELETE', '/1.0/instances/c2'),
  one('instance rename', 'POST', '/1.0/instances/c1', { name: 'c3' }),
  one('instance delete', 'DELETE', '/1.0/instances/c3'),
  one('network delete', 'DELETE', ({ bridge }) => `/1.0/networks/${bridge}`),
  one('image delete', 'DELETE', ({ fingerprint }) => `/1.0/images/${fingerprint}`),
  one('pool delete', 'DELETE', '/1.0/storage-pools/p1'),
];

/** Every request, in the order they build on each other. */
export const cases: readonly Case[] = [
  ...server,
  ...profiles,
  ...storage,
  ...networks,
  ...images,
  ...instanceErrors,
  ...instances,
  ...parts,
];
