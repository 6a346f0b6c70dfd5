import { freePort, request } from '@keelson/testkit';
import { record, type Run, rows, type Samples, timed } from './measure.ts';
import type { Row } from './report.ts';
import { act, type BenchServer, startTargets } from './servers.ts';
import { filled } from './storage.ts';

const POOLS = [
  ['dir', 'dir'],
  ['bt', 'btrfs'],
] as const;

interface Source {
  readonly server: BenchServer;
  readonly url: string;
  readonly certificate: string;
}

async function listening(server: BenchServer): Promise<Source> {
  const address = `127.0.0.1:${await freePort()}`;
  await act(server, 'PATCH', '/1.0', { config: { 'core.https_address': address } });
  const { body } = await request<{ environment: { certificate: string } }>(server.socket, 'GET', '/1.0');
  return { server, url: `https://${address}`, certificate: body.metadata.environment.certificate };
}

/** The target fetches the instance from the source over HTTPS, as `lxc copy` makes it. */
async function pull(source: Source, target: BenchServer, name: string, pool: string): Promise<void> {
  const { server, url, certificate } = source;
  const { body } = await request<{ metadata: Record<string, string> }>(
    server.socket,
    'POST',
    `/1.0/instances/${name}`,
    { migration: true },
  );
  const operation = body.operation.split('?')[0] ?? '';
  await act(target, 'POST', '/1.0/instances', {
    name,
    architecture: 'x86_64',
    profiles: [],
    devices: { root: { type: 'disk', path: '/', pool } },
    source: {
      type: 'migration',
      mode: 'pull',
      operation: `${url}${operation}`,
      certificate,
      secrets: body.metadata.metadata,
    },
  });
}

/** Copies of an instance of one gigabyte to a second server of the same kind on this machine. */
export async function migration(run: Run): Promise<Row[]> {
  await using stack = new AsyncDisposableStack();
  const targets = await startTargets(stack);
  const samples: Samples = new Map();
  const sources: Source[] = [];
  for (const server of run.servers) {
    for (const [pool] of POOLS) await filled(server, `gb-${pool}`, pool);
    sources.push(await listening(server));
  }
  run.note('migration: the instances are filled');
  const rounds = Math.min(run.rounds, 3);
  for (let round = 0; round < rounds; round++) {
    for (const [pool, label] of POOLS) {
      for (const [at, source] of sources.entries()) {
        const target = targets[at];
        if (target === undefined) continue;
        const took = await timed(() => pull(source, target, `gb-${pool}`, pool));
        record(samples, `copy of a 1 GB instance to another server, ${label}`, source.server, took);
        await act(target, 'DELETE', `/1.0/instances/gb-${pool}`);
      }
    }
    run.note(`migration: round ${round + 1} of ${rounds}`);
  }
  for (const [pool] of POOLS)
    for (const server of run.servers) await act(server, 'DELETE', `/1.0/instances/gb-${pool}`);
  const goal = { ratio: 1 };
  return rows('migration', samples, 'ms', {
    'copy of a 1 GB instance to another server, dir': goal,
    'copy of a 1 GB instance to another server, btrfs': goal,
  });
}
