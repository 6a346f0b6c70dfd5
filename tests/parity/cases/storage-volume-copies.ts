import { type Case, type Names, one } from '../case.ts';
import { urls, V, written } from '../volume-case.ts';

const octets = { 'Content-Type': 'application/octet-stream' };

/** LXD takes the keys of members from a map, whose order is chance. */
const inAnyOrder = {
  values(record: unknown): unknown {
    const { member_config, ...rest } = record as { member_config: object[] };
    return { ...rest, member_config: member_config.map((key) => JSON.stringify(key, Object.keys(key).sort())).sort() };
  },
};
const copies: readonly Case[] = [
  one('second pool for copies', 'POST', '/1.0/storage-pools', { name: 'p4', driver: 'dir' }),
  one('cluster with pools', 'GET', '/1.0/cluster', undefined, inAnyOrder),
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

/** Copies, refreshes, moves and backups of the volume `a`. */
export const volumeCopies: readonly Case[] = [...copies, ...backups];
