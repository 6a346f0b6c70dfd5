import { readFileSync } from 'node:fs';
import { request, tinyImage } from '@keelson/testkit';
import { requestsPerSecond } from './http-load.ts';
import { container, kill, record, type Run, rows, type Samples, start, timed } from './measure.ts';
import { percentile, type Row } from './report.ts';
import { act, type BenchServer, command, memoryOf } from './servers.ts';

/** Create and start, stop and delete a systemd container, one at a time, servers alternating. */
export async function launches(run: Run): Promise<Row[]> {
  const samples: Samples = new Map();
  for (const pool of ['dir', 'bt']) {
    const label = pool === 'bt' ? 'btrfs' : 'dir';
    for (let round = 0; round <= run.rounds; round++) {
      for (const server of run.servers) {
        const path = '/1.0/instances/bench1';
        const create = await timed(() => act(server, 'POST', '/1.0/instances', container(server, 'bench1', pool)));
        const running = await timed(() => act(server, 'PUT', `${path}/state`, start));
        const stop = await timed(() => act(server, 'PUT', `${path}/state`, kill));
        const remove = await timed(() => act(server, 'DELETE', path));
        if (round === 0) continue; // the first one unpacks the image into the pool
        record(samples, `launch, ${label}`, server, create + running);
        record(samples, `stop --force, ${label}`, server, stop);
        record(samples, `delete, ${label}`, server, remove);
      }
      run.note(`launches on ${label}: round ${round} of ${run.rounds}`);
    }
  }
  const goals = {
    'launch, dir': { ratio: 12 },
    'launch, btrfs': { ratio: 6 },
    'stop --force, dir': { ratio: 5 },
    'stop --force, btrfs': { ratio: 5 },
    'delete, dir': { ratio: 1 },
    'delete, btrfs': { ratio: 1 },
  };
  return rows('launch', samples, 'ms', goals);
}

/** `lxc exec c true` in a guest that has booted, servers alternating. */
export async function execs(run: Run): Promise<Row[]> {
  const samples: Samples = new Map();
  const lxc = (server: BenchServer, ...args: string[]): Promise<unknown> =>
    command('lxc', args, { env: { LXD_DIR: server.dir }, anyExit: true });
  for (const server of run.servers) {
    await act(server, 'POST', '/1.0/instances', container(server, 'exec1', 'dir'));
    await act(server, 'PUT', '/1.0/instances/exec1/state', start);
    await lxc(server, 'exec', 'exec1', '--', 'systemctl', 'is-system-running', '--wait');
  }
  for (let round = 0; round < run.rounds * 5; round++) {
    for (const server of run.servers) {
      record(samples, 'lxc exec c true', server, await timed(() => lxc(server, 'exec', 'exec1', '--', 'true')));
    }
  }
  for (const server of run.servers) {
    await act(server, 'PUT', '/1.0/instances/exec1/state', kill);
    await act(server, 'DELETE', '/1.0/instances/exec1');
  }
  return rows('exec', samples, 'ms', { 'lxc exec c true': { ratio: 1 } });
}

/** Twenty launches, four at a time. */
export async function manyLaunches(run: Run): Promise<Row[]> {
  const samples: Samples = new Map();
  for (let round = 0; round < Math.min(run.rounds, 3); round++) {
    for (const server of run.servers) {
      const names = Array.from({ length: 20 }, (_, index) => `many${index}`);
      const queue = [...names];
      const worker = async (): Promise<void> => {
        for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
          await act(server, 'POST', '/1.0/instances', container(server, name, 'bt'));
          await act(server, 'PUT', `/1.0/instances/${name}/state`, start);
        }
      };
      const ms = await timed(() => Promise.all([worker(), worker(), worker(), worker()]));
      record(samples, '20 launches, 4 at a time, btrfs', server, 20_000 / ms);
      for (const name of names) {
        await act(server, 'PUT', `/1.0/instances/${name}/state`, kill);
        await act(server, 'DELETE', `/1.0/instances/${name}`);
      }
      run.note(`20 launches of ${server.name}: ${(ms / 1000).toFixed(1)} s`);
    }
  }
  return rows('many', samples, '/s', { '20 launches, 4 at a time, btrfs': { ratio: 4 } });
}

const PATHS: readonly (readonly [name: string, path: string, goal: number])[] = [
  ['GET /1.0', '/1.0', 3],
  ['list', '/1.0/instances', 1],
  ['list, recursion=1', '/1.0/instances?recursion=1', 30],
  ['list, recursion=2', '/1.0/instances?recursion=2', 500],
  ['one instance', '/1.0/instances/idle7', 15],
];

/** Requests per second at 100 instances over 16 connections, and writes at 8 at a time. */
export async function api(run: Run): Promise<Row[]> {
  const samples: Samples = new Map();
  for (const server of run.servers) await makeIdle(server, 100);
  for (let round = 0; round < Math.min(run.rounds, 3); round++) {
    for (const [name, path] of PATHS) {
      for (const server of run.servers) {
        const rate = await requestsPerSecond(server.socket, path, { connections: 16, seconds: 2 });
        record(samples, `${name}, 100 instances`, server, rate);
      }
      run.note(`requests: ${name}, round ${round + 1}`);
    }
  }
  const goals = Object.fromEntries(PATHS.map(([name, , ratio]) => [`${name}, 100 instances`, { ratio }]));
  return rows('api', samples, '/s', goals);
}

async function makeIdle(server: BenchServer, count: number): Promise<void> {
  const device = { root: { type: 'disk', path: '/', pool: 'dir' } };
  for (let index = 0; index < count; index++) {
    await act(server, 'POST', '/1.0/instances', { name: `idle${index}`, source: { type: 'none' }, devices: device });
  }
}

/** Profile create, patch and delete, each acknowledged write on disk, eight at a time. */
export async function writes(run: Run): Promise<Row[]> {
  const samples: Samples = new Map();
  const count = 400;
  const each = async (server: BenchServer, what: string, send: (index: number) => Promise<unknown>): Promise<void> => {
    let next = 0;
    const worker = async (): Promise<void> => {
      for (let index = next++; index < count; index = next++) await send(index);
    };
    const ms = await timed(() => Promise.all(Array.from({ length: 8 }, worker)));
    record(samples, `profile ${what}, 8 at a time`, server, (count * 1000) / ms);
  };
  for (let round = 0; round < Math.min(run.rounds, 3); round++) {
    for (const server of run.servers) {
      await each(server, 'create', (index) => request(server.socket, 'POST', '/1.0/profiles', { name: `w${index}` }));
      await each(server, 'patch', (index) =>
        request(server.socket, 'PATCH', `/1.0/profiles/w${index}`, { config: { 'user.x': String(index) } }),
      );
      await each(server, 'delete', (index) => request(server.socket, 'DELETE', `/1.0/profiles/w${index}`));
    }
    run.note(`writes: round ${round + 1}`);
  }
  const goal = { ratio: 3 };
  return rows('writes', samples, '/s', {
    'profile create, 8 at a time': goal,
    'profile patch, 8 at a time': goal,
    'profile delete, 8 at a time': goal,
  });
}

/** Resident memory of the idle daemons; then ours with 1,000 stopped instances. */
export async function memory(run: Run): Promise<Row[]> {
  const values = Object.fromEntries(run.servers.map((server) => [server.name, memoryOf(server.pid)]));
  return [{ section: 'memory', name: 'daemon memory, idle', unit: 'MB', values, goal: { limit: 120 } }];
}

export async function fullMemory(run: Run): Promise<Row[]> {
  const [ours] = run.servers;
  if (ours === undefined) return [];
  const { body } = await request<string[]>(ours.socket, 'GET', '/1.0/instances');
  const device = { root: { type: 'disk', path: '/', pool: 'dir' } };
  for (let index = body.metadata.length; index < 1000; index++) {
    await act(ours, 'POST', '/1.0/instances', { name: `full${index}`, source: { type: 'none' }, devices: device });
  }
  await request(ours.socket, 'GET', '/1.0/instances?recursion=2');
  return [
    {
      section: 'memory',
      name: 'daemon memory, 1,000 stopped instances',
      unit: 'MB',
      values: { [ours.name]: memoryOf(ours.pid) },
      goal: { limit: 200 },
    },
  ];
}

const BUSY = 'while 20 launches and a small import run, p99';

/**
 * While 20 launches, 4 at a time, and the import of a small image run: how long `GET /1.0` takes, and how late this
 * server's event loop is; 99th percentiles, the former over all rounds together.
 */
export async function responsiveness(run: Run): Promise<Row[]> {
  const latencies = new Map(run.servers.map(({ name }) => [name, [] as number[]]));
  const samples: Samples = new Map();
  for (let round = 0; round < Math.min(run.rounds, 3); round++) {
    for (const server of run.servers) {
      const names = Array.from({ length: 20 }, (_, index) => `busy${index}`);
      const found = latencies.get(server.name) ?? [];
      const busy = (): Promise<void> => watched(server, found, () => busyWork(server, names));
      if (server.loopDelay === undefined) await busy();
      else record(samples, `event loop delay ${BUSY}`, server, await server.loopDelay(busy));
      for (const name of names) {
        await act(server, 'PUT', `/1.0/instances/${name}/state`, kill);
        await act(server, 'DELETE', `/1.0/instances/${name}`);
      }
      run.note(`responsiveness of ${server.name}: ${found.length} requests`);
    }
  }
  const values = Object.fromEntries([...latencies].map(([server, all]) => [server, percentile(all, 0.99)]));
  const goal = { limit: 20 };
  return [
    { section: 'responsiveness', name: `GET /1.0 ${BUSY}`, unit: 'ms', values, goal },
    ...rows('responsiveness', samples, 'ms', { [`event loop delay ${BUSY}`]: goal }),
  ];
}

async function busyWork(server: BenchServer, names: readonly string[]): Promise<void> {
  const queue = [...names];
  const worker = async (): Promise<void> => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
      await act(server, 'POST', '/1.0/instances', container(server, name, 'bt'));
      await act(server, 'PUT', `/1.0/instances/${name}/state`, start);
    }
  };
  await Promise.all([worker(), worker(), worker(), worker(), importSmall(server)]);
}

/** Asks for `GET /1.0` every 5 ms while `work` runs. */
async function watched(server: BenchServer, latencies: number[], work: () => Promise<void>): Promise<void> {
  let busy = true;
  const watch = (async (): Promise<void> => {
    while (busy) {
      latencies.push(await timed(() => request(server.socket, 'GET', '/1.0')));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
  await work().finally(() => (busy = false));
  await watch;
}

/** Imports an image of about a megabyte and deletes it again. */
async function importSmall(server: BenchServer): Promise<void> {
  const { unified } = await tinyImage();
  const headers = { 'Content-Type': 'application/octet-stream', 'X-LXD-properties': 'os=bench' };
  const { body } = await request<unknown>(server.socket, 'POST', '/1.0/images', readFileSync(unified), { headers });
  const done = await request<{ metadata: { fingerprint: string } }>(server.socket, 'GET', `${body.operation}/wait`);
  await act(server, 'DELETE', `/1.0/images/${done.body.metadata.metadata.fingerprint}`);
}
