import { type Case, type Names, none, one, root } from '../case.ts';

const V = '/1.0/storage-pools/p1/volumes';
const stale = { headers: { 'If-Match': 'abc' } };
const json = { headers: { 'Content-Type': 'application/json' } };
const octets = { 'Content-Type': 'application/octet-stream' };

/** What a client set, or may rely on the text of. */
const written = {
  values(record: unknown): unknown {
    const { name, config, description, content_type, used_by } = record as Record<string, unknown>;
    return { name, config, description, content_type, used_by: used_by ?? [] };
  },
};
/** A list of URLs, word for word. */
const urls = { values: (record: unknown): unknown => record };
const names = {
  values: (record: unknown): unknown => (record as { name: string }[] | null)?.map(({ name }) => name) ?? [],
};

/** Empty volumes and what is wrong with a request for one. */
const creation: readonly Case[] = [
  one('volumes empty', 'GET', V),
  one('volumes of a missing pool', 'GET', '/1.0/storage-pools/nope/volumes'),
  one('volumes of a missing project', 'GET', `${V}?project=nope`),
  one('volumes of a type empty', 'GET', `${V}/custom`),
  one('volumes of an unknown type', 'GET', `${V}/nonsense`),
  one('volume create', 'POST', V, { type: 'custom', name: 'a', description: 'd', config: { 'user.x': '1' } }),
  one('volume created', 'GET', `${V}/custom/a`, undefined, written),
  one('volume create by type', 'POST', `${V}/custom`, { name: 'b' }),
  one('volume create block', 'POST', `${V}/custom`, { name: 'blk', content_type: 'block', config: { size: '8MiB' } }),
  one('volume created block', 'GET', `${V}/custom/blk`, undefined, written),
  one('volume create twice', 'POST', `${V}/custom`, { name: 'a' }),
  one('volume create in a missing pool', 'POST', '/1.0/storage-pools/nope/volumes/custom', { name: 'x' }),
  one('volume create in a missing project', 'POST', `${V}/custom?project=nope`, { name: 'x' }),
  one('volume create on a missing member', 'POST', `${V}/custom?target=nope`, { name: 'x' }),
  one('volume create without type', 'POST', V, { name: 'x' }),
  one('volume create unknown type', 'POST', V, { name: 'x', type: 'nonsense' }),
  one('volume create type of instances', 'POST', V, { name: 'x', type: 'container' }),
  one('volume create type of images', 'POST', `${V}/image`, { name: 'x' }),
  one('volume create without name', 'POST', `${V}/custom`, {}),
  one('volume create slash', 'POST', `${V}/custom`, { name: 'x/y' }),
  one('volume create space', 'POST', `${V}/custom`, { name: 'x y' }),
  one('volume created space delete', 'DELETE', `${V}/custom/x%20y`),
  one('volume create control character', 'POST', `${V}/custom`, { name: 'x\ny' }),
  one('volume created control character delete', 'DELETE', `${V}/custom/x%0Ay`),
  one('volume create too long', 'POST', `${V}/custom`, { name: 'x'.repeat(300) }),
  one('volume create unknown key', 'POST', `${V}/custom`, { name: 'x', config: { foo: 'bar' } }),
  one('volume create key of another driver', 'POST', `${V}/custom`, { name: 'x', config: { 'zfs.blocksize': '8KiB' } }),
  one('volume create bad size', 'POST', `${V}/custom`, { name: 'x', config: { size: 'much' } }),
  one('volume create negative size', 'POST', `${V}/custom`, { name: 'x', config: { size: '-1' } }),
  one('volume create bad flag', 'POST', `${V}/custom`, { name: 'x', config: { 'security.shifted': 'maybe' } }),
  one('volume create shifted and unmapped', 'POST', `${V}/custom`, {
    name: 'xx',
    config: { 'security.shifted': 'true', 'security.unmapped': 'true' },
  }),
  one('volume created shifted and unmapped delete', 'DELETE', `${V}/custom/xx`),
  one('volume create bad schedule', 'POST', `${V}/custom`, { name: 'x', config: { 'snapshots.schedule': 'now' } }),
  one('volume create bad expiry', 'POST', `${V}/custom`, { name: 'x', config: { 'snapshots.expiry': 'soon' } }),
  one('volume create unknown content', 'POST', `${V}/custom`, { name: 'x', content_type: 'nonsense' }),
  one('volume create wrong type of name', 'POST', `${V}/custom`, { name: 5 }),
  one('volume create wrong type of config', 'POST', `${V}/custom`, { name: 'x', config: ['a'] }),
  one('volume create wrong type of a value', 'POST', `${V}/custom`, { name: 'x', config: { size: 5 } }),
  one('volume create no json', 'POST', `${V}/custom`, 'nonsense', json),
  one('volume create unknown source', 'POST', `${V}/custom`, { name: 'x', source: { type: 'nonsense' } }),
  one('volume create shifted', 'POST', `${V}/custom`, { name: 'sh', config: { 'security.shifted': 'true' } }),
  one('volume created shifted', 'GET', `${V}/custom/sh`, undefined, written),
  one('volume shifted delete', 'DELETE', `${V}/custom/sh`),
];

const reading: readonly Case[] = [
  one('volumes', 'GET', V, undefined, urls),
  one('volumes full', 'GET', `${V}?recursion=1`, undefined, names),
  one('volumes of a type', 'GET', `${V}/custom`, undefined, urls),
  one('volumes of a type full', 'GET', `${V}/custom?recursion=1`, undefined, names),
  one('volumes of containers', 'GET', `${V}/container`, undefined, urls),
  one('volumes of virtual machines', 'GET', `${V}/virtual-machine`, undefined, urls),
  one('volumes of images', 'GET', `${V}/image`, undefined, urls),
  one('volumes of images full', 'GET', `${V}/image?recursion=1`, undefined, names),
  one('volumes by filter', 'GET', `${V}?recursion=1&filter=content_type%20eq%20block`, undefined, names),
  one('volumes by filter of config', 'GET', `${V}?recursion=1&filter=config.user.x%20eq%201`, undefined, names),
  one('volumes by filter without records', 'GET', `${V}?filter=name%20eq%20a`, undefined, urls),
  one('volumes by wrong filter', 'GET', `${V}?recursion=1&filter=name%20is%20a`, undefined, names),
  one('volumes of this member', 'GET', `${V}?target=none`, undefined, urls),
  one('volumes of a missing member', 'GET', `${V}?target=nope`),
  one('volume', 'GET', `${V}/custom/a`),
  one('volume missing', 'GET', `${V}/custom/nope`),
  one('volume of an unknown type', 'GET', `${V}/nonsense/a`),
  one('volume of a missing pool', 'GET', '/1.0/storage-pools/nope/volumes/custom/a'),
  one('volume of a missing project', 'GET', `${V}/custom/a?project=nope`),
  one('volume of this member', 'GET', `${V}/custom/a?target=none`),
  one('volume of a missing member', 'GET', `${V}/custom/a?target=nope`),
  one('volume state', 'GET', `${V}/custom/a/state`, undefined, { loose: true }),
  one('volume state of a block volume', 'GET', `${V}/custom/blk/state`, undefined, { loose: true }),
  one('volume state missing', 'GET', `${V}/custom/nope/state`),
  one('volume state of an unknown type', 'GET', `${V}/nonsense/a/state`),
];

const changing: readonly Case[] = [
  one('volume patch', 'PATCH', `${V}/custom/a`, { config: { 'user.y': '2' } }),
  one('volume patched', 'GET', `${V}/custom/a`, undefined, written),
  one('volume patch description', 'PATCH', `${V}/custom/a`, { description: 'p' }),
  one('volume patched description', 'GET', `${V}/custom/a`, undefined, written),
  one('volume put', 'PUT', `${V}/custom/a`, { config: { 'user.z': '3' }, description: 'e' }),
  one('volume replaced', 'GET', `${V}/custom/a`, undefined, written),
  one('volume put with an empty value', 'PUT', `${V}/custom/a`, { config: { 'user.z': '3', 'user.e': '' } }),
  one('volume without the empty value', 'GET', `${V}/custom/a`, undefined, written),
  one('volume put stale', 'PUT', `${V}/custom/a`, { config: {} }, stale),
  one('volume patch stale', 'PATCH', `${V}/custom/a`, { config: {} }, stale),
  one('volume put unknown key', 'PUT', `${V}/custom/a`, { config: { foo: 'bar' } }),
  one('volume patch unknown key', 'PATCH', `${V}/custom/a`, { config: { foo: 'bar' } }),
  one('volume put bad size', 'PUT', `${V}/custom/a`, { config: { size: 'much' } }),
  one('volume put size', 'PUT', `${V}/custom/a`, { config: { size: '16MiB' } }),
  one('volume put wrong type', 'PUT', `${V}/custom/a`, { config: 5 }),
  one('volume put missing', 'PUT', `${V}/custom/nope`, { config: {} }),
  one('volume patch missing', 'PATCH', `${V}/custom/nope`, { config: {} }),
  one('volume put of an unknown type', 'PUT', `${V}/nonsense/a`, { config: {} }),
  one('volume put on a missing member', 'PUT', `${V}/custom/a?target=nope`, { config: {} }),
  one('volume restore missing snapshot', 'PUT', `${V}/custom/a`, { restore: 'nope' }),
  one('volume block grow', 'PATCH', `${V}/custom/blk`, { config: { size: '16MiB' } }),
  one('volume block shrink', 'PATCH', `${V}/custom/blk`, { config: { size: '8MiB' } }),
  one('volume block after', 'GET', `${V}/custom/blk`, undefined, written),
  one('volume rename', 'POST', `${V}/custom/b`, { name: 'b2' }),
  one('volume rename missing', 'POST', `${V}/custom/nope`, { name: 'n' }),
  one('volume rename without name', 'POST', `${V}/custom/b2`, {}),
  one('volume rename taken', 'POST', `${V}/custom/b2`, { name: 'a' }),
  one('volume rename to itself', 'POST', `${V}/custom/b2`, { name: 'b2' }),
  one('volume rename slash', 'POST', `${V}/custom/b2`, { name: 'x/y' }),
  one('volume rename wrong type', 'POST', `${V}/custom/b2`, { name: 5 }),
  one('volume rename of an unknown type', 'POST', `${V}/nonsense/b2`, { name: 'n' }),
  one('volume rename on a missing member', 'POST', `${V}/custom/b2?target=nope`, { name: 'n' }),
];

const S = `${V}/custom/a/snapshots`;
const snapshots: readonly Case[] = [
  one('volume snapshots empty', 'GET', S),
  one('volume snapshots missing', 'GET', `${V}/custom/nope/snapshots`),
  one('volume snapshots of an unknown type', 'GET', `${V}/nonsense/a/snapshots`),
  one('volume snapshot create', 'POST', S, { name: 's1' }),
  one('volume snapshot create unnamed', 'POST', S, {}),
  one('volume snapshot create with expiry', 'POST', S, { name: 's3', expires_at: '2090-01-01T00:00:00Z' }),
  one('volume snapshot create taken', 'POST', S, { name: 's1' }),
  one('volume snapshot create slash', 'POST', S, { name: 'x/y' }),
  one('volume snapshot create wrong type', 'POST', S, { name: 5 }),
  one('volume snapshot create bad time', 'POST', S, { name: 'x', expires_at: 'soon' }),
  one('volume snapshot create missing', 'POST', `${V}/custom/nope/snapshots`, { name: 'x' }),
  one('volume snapshot create of an unknown type', 'POST', `${V}/nonsense/a/snapshots`, { name: 'x' }),
  one('volume snapshot create on a missing member', 'POST', `${S}?target=nope`, { name: 'x' }),
  one('volume snapshots', 'GET', S, undefined, urls),
  one('volume snapshots full', 'GET', `${S}?recursion=1`, undefined, names),
  one('volume snapshot', 'GET', `${S}/s1`),
  one('volume snapshot with expiry', 'GET', `${S}/s3`, undefined, {
    values: (record) => (record as { expires_at: string }).expires_at,
  }),
  one('volume snapshot as a volume', 'GET', `${V}/custom/a%2Fs1`),
  one('volume snapshot missing', 'GET', `${S}/nope`),
  one('volume snapshot of an unknown type', 'GET', `${V}/nonsense/a/snapshots/s1`),
  one('volumes with snapshots', 'GET', V, undefined, urls),
  one('volumes with snapshots full', 'GET', `${V}?recursion=1`, undefined, names),
  one('volume snapshot put', 'PUT', `${S}/s1`, { description: 'd', expires_at: '2090-01-01T00:00:00Z' }),
  one('volume snapshot replaced', 'GET', `${S}/s1`, undefined, {
    values: (record) => [
      (record as { description: string }).description,
      (record as { expires_at: string }).expires_at,
    ],
  }),
  one('volume snapshot put without expiry', 'PUT', `${S}/s1`, { description: 'f' }),
  one('volume snapshot without expiry', 'GET', `${S}/s1`, undefined, {
    values: (record) => [
      (record as { description: string }).description,
      (record as { expires_at: string }).expires_at,
    ],
  }),
  one('volume snapshot patch', 'PATCH', `${S}/s1`, { description: 'e' }),
  one('volume snapshot put stale', 'PUT', `${S}/s1`, { description: 'e' }, stale),
  one('volume snapshot put missing', 'PUT', `${S}/nope`, { description: 'e' }),
  one('volume snapshot patch missing', 'PATCH', `${S}/nope`, { description: 'e' }),
  one('volume snapshot put wrong type', 'PUT', `${S}/s1`, { description: 5 }),
  one('volume snapshot rename', 'POST', `${S}/s1`, { name: 's2' }),
  one('volume snapshot rename taken', 'POST', `${S}/s2`, { name: 's3' }),
  one('volume snapshot rename missing', 'POST', `${S}/nope`, { name: 's4' }),
  one('volume snapshot rename slash', 'POST', `${S}/s2`, { name: 'x/y' }),
  one('volume snapshot rename without name', 'POST', `${S}/s2`, {}),
  one('volume restore', 'PUT', `${V}/custom/a`, { restore: 's2' }),
  one('volume restored', 'GET', `${V}/custom/a`, undefined, written),
  one('volume snapshot delete missing', 'DELETE', `${S}/nope`),
  one('volume snapshot delete unnamed', 'DELETE', `${S}/snap0`),
];

const copies: readonly Case[] = [
  one('second pool for copies', 'POST', '/1.0/storage-pools', { name: 'p4', driver: 'dir' }),
  one('cluster with pools', 'GET', '/1.0/cluster', undefined, { values: (record) => record }),
  one('volume copy', 'POST', `${V}/custom`, { name: 'c', source: { type: 'copy', pool: 'p1', name: 'a' } }),
  one('volume copied', 'GET', `${V}/custom/c`, undefined, written),
  one('volume copied snapshots', 'GET', `${V}/custom/c/snapshots`, undefined, urls),
  one('volume copy only', 'POST', `${V}/custom`, {
    name: 'd',
    description: 'own',
    config: { 'user.own': '1' },
    source: { type: 'copy', pool: 'p1', name: 'a', volume_only: true },
  }),
  one('volume copied only', 'GET', `${V}/custom/d`, undefined, written),
  one('volume copied only snapshots', 'GET', `${V}/custom/d/snapshots`, undefined, urls),
  one('volume copy of a snapshot', 'POST', `${V}/custom`, {
    name: 'e',
    source: { type: 'copy', pool: 'p1', name: 'a/s2' },
  }),
  one('volume copied of a snapshot', 'GET', `${V}/custom/e`, undefined, written),
  one('volume copy to another pool', 'POST', '/1.0/storage-pools/p4/volumes/custom', {
    name: 'a',
    source: { type: 'copy', pool: 'p1', name: 'a' },
  }),
  one('volume copy refresh', 'POST', '/1.0/storage-pools/p4/volumes/custom', {
    name: 'a',
    source: { type: 'copy', pool: 'p1', name: 'a', refresh: true },
  }),
  one('volumes of the other pool', 'GET', '/1.0/storage-pools/p4/volumes', undefined, urls),
  one('volume copy taken', 'POST', `${V}/custom`, { name: 'd', source: { type: 'copy', pool: 'p1', name: 'a' } }),
  one('volume copy of a missing volume', 'POST', `${V}/custom`, {
    name: 'x',
    source: { type: 'copy', pool: 'p1', name: 'nope' },
  }),
  one('volume copy of a missing snapshot', 'POST', `${V}/custom`, {
    name: 'x',
    source: { type: 'copy', pool: 'p1', name: 'a/nope' },
  }),
  one('volume copy from a missing pool', 'POST', `${V}/custom`, {
    name: 'x',
    source: { type: 'copy', pool: 'nope', name: 'a' },
  }),
  one('volume copy from a missing project', 'POST', `${V}/custom`, {
    name: 'x',
    source: { type: 'copy', pool: 'p1', name: 'a', project: 'nope' },
  }),
  one('volume copy without source name', 'POST', `${V}/custom`, { name: 'xx', source: { type: 'copy', pool: 'p1' } }),
  one('volume copied without source name delete', 'DELETE', `${V}/custom/xx`),
  one('volume copy bad name', 'POST', `${V}/custom`, { name: 'x/y', source: { type: 'copy', pool: 'p1', name: 'a' } }),
  one('volume copy unknown key', 'POST', `${V}/custom`, {
    name: 'x',
    config: { foo: 'bar' },
    source: { type: 'copy', pool: 'p1', name: 'a' },
  }),
  one('volume move', 'POST', `${V}/custom/e`, { name: 'e', pool: 'p4' }),
  one('volume move onto a taken name', 'POST', `${V}/custom/d`, { name: 'e', pool: 'p4' }),
  one('volume move to a missing pool', 'POST', `${V}/custom/d`, { name: 'd', pool: 'nope' }),
  one('volume move to a missing project', 'POST', `${V}/custom/d`, { name: 'd', pool: 'p1', project: 'nope' }),
  one('volume moved', 'GET', '/1.0/storage-pools/p4/volumes/custom/e', undefined, written),
  one('volume moved is gone', 'GET', `${V}/custom/e`),
  one('project with volumes of its own', 'POST', '/1.0/projects', {
    name: 'pv',
    config: { 'features.images': 'false' },
  }),
  one('volume move to a project', 'POST', `${V}/custom/d`, { name: 'd', pool: 'p1', project: 'pv' }),
  one('volumes of the project', 'GET', `${V}/custom?project=pv`, undefined, urls),
  one('volume of the project', 'GET', `${V}/custom/d?project=pv`, undefined, written),
  one('volumes of all projects', 'GET', `${V}?all-projects=true`),
  one('volume create in the project', 'POST', `${V}/custom?project=pv`, { name: 'a' }),
  one('pool used from two projects', 'GET', '/1.0/storage-pools/p1', undefined, {
    values: (record) => (record as { used_by: string[] }).used_by,
    loose: true,
  }),
  one('volume of the project delete', 'DELETE', `${V}/custom/d?project=pv`),
  one('volume of the project delete too', 'DELETE', `${V}/custom/a?project=pv`),
  one('project with volumes delete', 'DELETE', '/1.0/projects/pv'),
];

const B = `${V}/custom/a/backups`;
const backups: readonly Case[] = [
  one('volume backups empty', 'GET', B),
  one('volume backups missing', 'GET', `${V}/custom/nope/backups`),
  one('volume backups of an unknown type', 'GET', `${V}/nonsense/a/backups`),
  one('volume backups of containers', 'GET', `${V}/container/nope/backups`),
  one('volume backup create', 'POST', B, { name: 'k1', compression_algorithm: 'none' }),
  one('volume backup create only', 'POST', B, { name: 'k2', volume_only: true, expires_at: '2090-01-01T00:00:00Z' }),
  one('volume backup create unnamed', 'POST', B, {}),
  one('volume backup create taken', 'POST', B, { name: 'k1' }),
  one('volume backup create slash', 'POST', B, { name: 'x/y' }),
  one('volume backup create wrong type', 'POST', B, { name: 5 }),
  one('volume backup create bad compression', 'POST', B, { name: 'x', compression_algorithm: 'nonsense' }),
  one('volume backup create missing', 'POST', `${V}/custom/nope/backups`, { name: 'x' }),
  one('volume backup create on a missing member', 'POST', `${B}?target=nope`, { name: 'x' }),
  one('volume backups', 'GET', B, undefined, urls),
  one('volume backups full', 'GET', `${B}?recursion=1`),
  one('volume backup', 'GET', `${B}/k2`, undefined, {
    values(record) {
      const { name, volume_only, expires_at } = record as Record<string, unknown>;
      return [name, volume_only, expires_at];
    },
  }),
  one('volume backup missing', 'GET', `${B}/nope`),
  one('volume backup export', 'GET', `${B}/k1/export`, undefined, { loose: true }),
  one('volume backup export missing', 'GET', `${B}/nope/export`),
  one('volume backup rename', 'POST', `${B}/k2`, { name: 'k3' }),
  one('volume backup rename taken', 'POST', `${B}/k3`, { name: 'k1' }),
  one('volume backup rename missing', 'POST', `${B}/nope`, { name: 'x' }),
  one('volume backup rename slash', 'POST', `${B}/k3`, { name: 'x/y' }),
  one('volume backup delete', 'DELETE', `${B}/k3`),
  one('volume backup delete missing', 'DELETE', `${B}/k3`),
  one('volume import', 'POST', `${V}/custom`, ({ backup }: Names) => backup, {
    headers: { ...octets, 'X-LXD-name': 'imp' },
  }),
  one('volume imported', 'GET', `${V}/custom/imp`, undefined, written),
  one('volume imported snapshots', 'GET', `${V}/custom/imp/snapshots`, undefined, urls),
  one('volume import under its own name', 'POST', `${V}/custom`, ({ backup }: Names) => backup, { headers: octets }),
  one('volume import taken', 'POST', `${V}/custom`, ({ backup }: Names) => backup, {
    headers: { ...octets, 'X-LXD-name': 'imp' },
  }),
  one(
    'volume import into a missing pool',
    'POST',
    '/1.0/storage-pools/nope/volumes/custom',
    ({ backup }: Names) => backup,
    {
      headers: { ...octets, 'X-LXD-name': 'x' },
    },
  ),
  one('volume import of nonsense', 'POST', `${V}/custom`, 'nonsense', { headers: { ...octets, 'X-LXD-name': 'x' } }),
  one('volume import of nothing', 'POST', `${V}/custom`, '', { headers: { ...octets, 'X-LXD-name': 'x' } }),
  one('volume import of an image of a disc', 'POST', `${V}/custom`, 'disc', {
    headers: { ...octets, 'X-LXD-name': 'iso', 'X-LXD-type': 'iso' },
    loose: true,
  }),
];

const disk = { type: 'disk', pool: 'p1', source: 'a', path: '/a' };
const users: readonly Case[] = [
  one('instance with a volume', 'POST', '/1.0/instances', none('u1', { devices: { root, data: disk } })),
  one('volume used', 'GET', `${V}/custom/a`, undefined, written),
  one('volume of an instance', 'GET', `${V}/container/u1`, undefined, written),
  one('volume of an instance state', 'GET', `${V}/container/u1/state`, undefined, { loose: true }),
  one('volume of an instance snapshots', 'GET', `${V}/container/u1/snapshots`),
  one('volume of an instance snapshot create', 'POST', `${V}/container/u1/snapshots`, { name: 'x' }),
  one('volume of an instance backups', 'GET', `${V}/container/u1/backups`),
  one('volume of an instance backup create', 'POST', `${V}/container/u1/backups`, { name: 'x' }),
  one('volume of an instance patch', 'PATCH', `${V}/container/u1`, { description: 'of u1' }),
  one('volume of an instance patched', 'GET', `${V}/container/u1`, undefined, written),
  one('volume of an instance put unknown key', 'PUT', `${V}/container/u1`, { config: { foo: 'bar' } }),
  one('volume of an instance rename', 'POST', `${V}/container/u1`, { name: 'u2' }),
  one('volume of an instance delete', 'DELETE', `${V}/container/u1`),
  one('volume of an instance missing', 'GET', `${V}/container/nope`),
  one('volume delete used', 'DELETE', `${V}/custom/a`),
  one('pool delete used', 'DELETE', '/1.0/storage-pools/p1'),
  one('profile with a volume', 'POST', '/1.0/profiles', { name: 'pvol', devices: { data: disk } }),
  one('volume used by a profile', 'GET', `${V}/custom/a`, undefined, written),
  one(
    'instance with a missing volume',
    'POST',
    '/1.0/instances',
    none('u3', { devices: { root, data: { ...disk, source: 'nope' } } }),
  ),
  one(
    'instance with a volume of a missing pool',
    'POST',
    '/1.0/instances',
    none('u3', { devices: { root, data: { ...disk, pool: 'nope' } } }),
  ),
  one(
    'instance with a volume without path',
    'POST',
    '/1.0/instances',
    none('u3', { devices: { root, data: { type: 'disk', pool: 'p1', source: 'a' } } }),
  ),
  one('volume backup delete before the rename', 'DELETE', `${V}/custom/a/backups/k1`),
  one('volume backup delete unnamed', 'DELETE', `${V}/custom/a/backups/backup0`),
  one('volume rename used', 'POST', `${V}/custom/a`, { name: 'a2' }),
  one('instance after the rename', 'GET', '/1.0/instances/u1', undefined, {
    values: (record) => (record as { devices: object }).devices,
  }),
  one('profile after the rename', 'GET', '/1.0/profiles/pvol', undefined, {
    values: (record) => (record as { devices: object }).devices,
  }),
  one('volume rename used back', 'POST', `${V}/custom/a2`, { name: 'a' }),
  one('profile with a volume delete', 'DELETE', '/1.0/profiles/pvol'),
  one('instance with a volume delete', 'DELETE', '/1.0/instances/u1'),
];

const deletion: readonly Case[] = [
  one('volume delete missing', 'DELETE', `${V}/custom/nope`),
  one('volume delete of an unknown type', 'DELETE', `${V}/nonsense/a`),
  one('volume delete of a missing pool', 'DELETE', '/1.0/storage-pools/nope/volumes/custom/a'),
  one('volume delete on a missing member', 'DELETE', `${V}/custom/a?target=nope`),
  one('volume delete of an image', 'DELETE', `${V}/image/abcdef`),
  one('volume delete stale', 'DELETE', `${V}/custom/a`, undefined, stale),
  one('volume delete', 'DELETE', `${V}/custom/a`),
  ...['b2', 'c', 'blk', 'imp', 'kept', 'iso'].map((name) =>
    one(`volume ${name} delete`, 'DELETE', `${V}/custom/${name}`),
  ),
  one('volume of the other pool delete', 'DELETE', '/1.0/storage-pools/p4/volumes/custom/a'),
  one('volume moved delete', 'DELETE', '/1.0/storage-pools/p4/volumes/custom/e'),
  one('second pool for copies delete', 'DELETE', '/1.0/storage-pools/p4'),
  one('volumes after all', 'GET', V, undefined, urls),
];

/** After the pools, which leave `p1`. */
export const storageVolumes: readonly Case[] = [
  ...creation,
  ...reading,
  ...changing,
  ...snapshots,
  ...copies,
  ...backups,
  ...users,
  ...deletion,
];
