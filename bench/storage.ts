import { request } from '@keelson/testkit';
import { container, kill, record, type Run, rows, type Samples, start, timed } from './measure.ts';
import type { Row } from './report.ts';
import { act, type BenchServer, command, memoryOf } from './servers.ts';

const POOLS = [
  ['dir', 'dir'],
  ['bt', 'btrfs'],
] as const;
/** What an instance holds at least before it is copied. */
const MEGABYTES = 1000;

const disk = (pool: string): object => ({ root: { type: 'disk', path: '/', pool } });

/** Fills a guest with copies of its own programs: files as real ones, in number and size. */
const FILL = `i=0; while [ "$(du -smx / | cut -f1)" -lt ${MEGABYTES} ]; do i=$((i+1)); mkdir /opt/$i; cp -a /usr /opt/$i; done; sync`;

/** An instance of one gigabyte, stopped. */
export async function filled(server: BenchServer, name: string, pool: string): Promise<void> {
  await act(server, 'POST', '/1.0/instances', container(server, name, pool));
  await act(server, 'PUT', `/1.0/instances/${name}/state`, start);
  await command('lxc', ['exec', name, '--', 'sh', '-c', FILL], { env: { LXD_DIR: server.dir }, timeoutMs: 300_000 });
  await act(server, 'PUT', `/1.0/instances/${name}/state`, kill);
}

/** Instances of one gigabyte: clone, snapshot, restore, copy to the other pool, export. */
async function instances(run: Run): Promise<Row[]> {
  const samples: Samples = new Map();
  const rounds = Math.min(run.rounds, 3);
  for (const [pool] of POOLS) for (const server of run.servers) await filled(server, `gb-${pool}`, pool);
  run.note('storage: the instances are filled');
  for (let round = 0; round < rounds; round++) {
    for (const [pool, label] of POOLS) {
      for (const server of run.servers) await cloneAndSnapshot(server, samples, [pool, label]);
    }
    for (const server of run.servers) await copyAndExport(server, samples);
    run.note(`storage: instances, round ${round + 1} of ${rounds}`);
  }
  for (const [pool] of POOLS)
    for (const server of run.servers) await act(server, 'DELETE', `/1.0/instances/gb-${pool}`);
  const goals: Record<string, Row['goal']> = {
    'clone of a 1 GB instance, dir': { ratio: 20 },
    'clone of a 1 GB instance, btrfs': { ratio: 2 },
    'copy of a 1 GB instance, dir to btrfs': { ratio: 1 },
    'export of a 1 GB instance, uncompressed': { ratio: 1 },
  };
  for (const [, label] of POOLS) {
    goals[`snapshot of a 1 GB instance, ${label}`] = { ratio: 2 };
    goals[`restore of a 1 GB instance, ${label}`] = { ratio: 2 };
  }
  return rows('storage', samples, 'ms', goals);
}

async function cloneAndSnapshot(
  server: BenchServer,
  samples: Samples,
  [pool, label]: readonly [string, string],
): Promise<void> {
  const url = `/1.0/instances/gb-${pool}`;
  const measure = async (what: string, method: string, path: string, body: object): Promise<void> =>
    record(samples, `${what} of a 1 GB instance, ${label}`, server, await timed(() => act(server, method, path, body)));
  await measure('clone', 'POST', '/1.0/instances', { name: 'clone', source: { type: 'copy', source: `gb-${pool}` } });
  await act(server, 'DELETE', '/1.0/instances/clone');
  await measure('snapshot', 'POST', `${url}/snapshots`, { name: 's' });
  await measure('restore', 'PUT', url, { restore: 's' });
  await act(server, 'DELETE', `${url}/snapshots/s`);
}

async function copyAndExport(server: BenchServer, samples: Samples): Promise<void> {
  const copy = { name: 'moved', devices: disk('bt'), source: { type: 'copy', source: 'gb-dir' } };
  const copied = await timed(() => act(server, 'POST', '/1.0/instances', copy));
  record(samples, 'copy of a 1 GB instance, dir to btrfs', server, copied);
  await act(server, 'DELETE', '/1.0/instances/moved');
  const backups = '/1.0/instances/gb-dir/backups';
  const backup = { name: 'k', compression_algorithm: 'none', instance_only: true };
  const packed = await timed(() => act(server, 'POST', backups, backup));
  record(samples, 'export of a 1 GB instance, uncompressed', server, packed);
  await act(server, 'DELETE', `${backups}/k`);
}

/** A custom volume with the programs of the image: copy to the other pool, export with the default compression. */
async function contents(run: Run): Promise<Row[]> {
  const samples: Samples = new Map();
  const url = '/1.0/storage-pools/dir/volumes/custom';
  for (const server of run.servers) {
    await act(server, 'POST', url, { name: 'data' });
    const data = { type: 'disk', pool: 'dir', source: 'data', path: '/data' };
    const guest = { ...container(server, 'filler', 'dir'), devices: { ...disk('dir'), data } };
    await act(server, 'POST', '/1.0/instances', guest);
    await act(server, 'PUT', '/1.0/instances/filler/state', start);
    await command('lxc', ['exec', 'filler', '--', 'cp', '-a', '/usr', '/data'], { env: { LXD_DIR: server.dir } });
    await act(server, 'PUT', '/1.0/instances/filler/state', kill);
    await act(server, 'DELETE', '/1.0/instances/filler');
  }
  for (let round = 0; round < Math.min(run.rounds, 3); round++) {
    for (const server of run.servers) {
      const source = { type: 'copy', pool: 'dir', name: 'data' };
      const other = '/1.0/storage-pools/bt/volumes/custom';
      const copied = await timed(() => act(server, 'POST', other, { name: 'copy', source }));
      record(samples, 'copy of a volume, dir to btrfs', server, copied);
      await act(server, 'DELETE', `${other}/copy`);
      const packed = await timed(() => act(server, 'POST', `${url}/data/backups`, { name: 'k' }));
      record(samples, 'export of a volume, gzip', server, packed);
      await act(server, 'DELETE', `${url}/data/backups/k`);
    }
    run.note(`storage: volumes, round ${round + 1}`);
  }
  for (const server of run.servers) await act(server, 'DELETE', `${url}/data`);
  const goal = { ratio: 1 };
  return rows('storage', samples, 'ms', { 'copy of a volume, dir to btrfs': goal, 'export of a volume, gzip': goal });
}

async function makeVolumes(server: BenchServer, from: number, to: number): Promise<void> {
  let next = from;
  const worker = async (): Promise<void> => {
    for (let index = next++; index < to; index = next++) {
      await act(server, 'POST', '/1.0/storage-pools/dir/volumes/custom', { name: `v${index}` });
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

/** A list of 1,000 volumes in both servers, of 10,000 in ours, whose memory is read before and after. */
async function lists(run: Run): Promise<Row[]> {
  const samples: Samples = new Map();
  const path = '/1.0/storage-pools/dir/volumes/custom?recursion=1';
  for (const server of run.servers) await makeVolumes(server, 0, 1000);
  for (let round = 0; round < run.rounds; round++) {
    for (const server of run.servers) {
      const ms = await timed(() => request(server.socket, 'GET', path));
      record(samples, 'list of 1,000 volumes, recursion=1', server, ms);
    }
  }
  const found = rows('storage', samples, 'ms', { 'list of 1,000 volumes, recursion=1': { ratio: 20 } });
  const [ours] = run.servers;
  if (ours === undefined) return found;
  const before = memoryOf(ours.pid);
  await makeVolumes(ours, 1000, 10_000);
  // The first one is not prepared: each volume's text is made for it.
  const first = await timed(() => request(ours.socket, 'GET', path));
  const memory = memoryOf(ours.pid) - before;
  const only = (value: number): Record<string, number> => ({ [ours.name]: value });
  return [
    ...found,
    { section: 'storage', name: 'first list of 10,000 volumes', unit: 'ms', values: only(first), goal: { limit: 200 } },
    {
      section: 'storage',
      name: 'memory for 9,000 volumes more',
      unit: 'MB',
      values: only(memory),
      goal: { limit: 100 },
    },
  ];
}

/** Pools and volumes. */
export async function storage(run: Run): Promise<Row[]> {
  return [...(await instances(run)), ...(await contents(run)), ...(await lists(run))];
}
