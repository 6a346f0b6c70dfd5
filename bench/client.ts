// Measures the TypeScript client beside a bare http.request, `lxc` and pylxd, against one Keelson in one run.
//   npm run bench:client            (BENCH_REQUESTS, BENCH_ROUNDS change the number of samples)
import { spawn } from 'node:child_process';
import { createReadStream, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Client } from '@keelson/client';
import { command, startDaemon, tinyImage } from '@keelson/testkit';
import { median } from './report.ts';

const REQUESTS = Number(process.env['BENCH_REQUESTS'] ?? 2000);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15);
const INSTANCES = 1000;
const PYTHON = '/usr/bin/python3';

interface Row {
  readonly name: string;
  /** Milliseconds, medians. */
  readonly bare: number;
  readonly ours: number;
  readonly pylxd: number | undefined;
  readonly goal: string;
  readonly met: boolean;
}

/** pylxd's side of each row: reads what to do from its arguments and prints milliseconds, one a line. */
const PYTHON_SCRIPT = `
import json, sys, time, warnings
warnings.simplefilter('ignore')
from urllib.parse import quote
from pylxd import Client, models
what, socket, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = Client('http+unix://' + quote(socket, safe=''))
def request():
    client.api.profiles['default'].get().json()
def objects():
    records = client.api.instances.get(params={'recursion': 1}).json()['metadata']
    made = [models.Instance(client, **record) if hasattr(models, 'Instance') else models.Container(client, **record) for record in records]
    assert len(made) == ${INSTANCES} and made[-1].status
def execute():
    assert c1.execute(['true']).exit_code == 0
if what == 'execute':
    c1 = client.containers.get('c1')
run = {'request': request, 'objects': objects, 'execute': execute}[what]
run()
for _ in range(rounds):
    start = time.perf_counter()
    run()
    print((time.perf_counter() - start) * 1000)
`;

/** A request over a kept connection, body read whole; nothing else. */
function bare(agent: Agent, socketPath: string, path: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ socketPath, path, agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve(Buffer.concat(chunks)));
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end();
  });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Medians of both, taken in turn. */
async function alternate(
  rounds: number,
  a: () => Promise<unknown>,
  b: () => Promise<unknown>,
): Promise<[number, number]> {
  const [first, second]: [number[], number[]] = [[], []];
  for (let round = 0; round < Math.ceil(rounds / 10); round++) {
    await a();
    await b();
  }
  for (let round = 0; round < rounds; round++) {
    first.push(await timed(a));
    second.push(await timed(b));
  }
  return [median(first), median(second)];
}

async function pylxd(what: string, socket: string, rounds: number): Promise<number | undefined> {
  if (!existsSync('/usr/lib/python3/dist-packages/pylxd')) return undefined;
  const { stdout } = await command(PYTHON, ['-c', PYTHON_SCRIPT, what, socket, String(rounds)]);
  return median(stdout.trim().split('\n').map(Number));
}

async function requests(client: Client, socket: string, agent: Agent): Promise<Row> {
  const path = '/1.0/profiles/default';
  const node = client.api['profiles']?.['default'];
  const [raw, ours] = await alternate(
    REQUESTS,
    () => bare(agent, socket, path),
    async () => (await node?.get())?.json(),
  );
  return {
    name: 'one GET, parsed',
    bare: raw,
    ours,
    pylxd: await pylxd('request', socket, 300),
    goal: '< 0.2 ms over bare',
    met: ours - raw < 0.2,
  };
}

/** A process that answers with a recorded list: a thousand real instances take minutes to make. */
async function serveList(folder: string, records: unknown): Promise<{ socket: string } & AsyncDisposable> {
  const socket = join(folder, 'list.socket');
  const list = join(folder, 'list.json');
  const server = { environment: {}, auth: 'trusted', api_version: '1.0', api_extensions: ['storage'] };
  writeFileSync(list, JSON.stringify({ type: 'sync', status: 'Success', status_code: 200, metadata: records }));
  const script = `
    const { readFileSync } = require('node:fs');
    const list = readFileSync(${JSON.stringify(list)});
    const root = JSON.stringify({ type: 'sync', status_code: 200, metadata: ${JSON.stringify(server)} });
    require('node:http').createServer((request, response) => {
      const body = request.url.includes('/instances') ? list : root;
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }).end(body);
    }).listen(${JSON.stringify(socket)}, () => console.log('ready'));`;
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return {
    socket,
    async [Symbol.asyncDispose]() {
      const ended = once(child, 'exit');
      child.kill();
      await ended;
    },
  };
}

async function objects(record: object, agent: Agent): Promise<Row> {
  const folder = mkdtempSync(join(tmpdir(), 'keelson-bench-client-'));
  try {
    const records = Array.from({ length: INSTANCES }, (_, index) => ({ ...record, name: `c${index}` }));
    await using server = await serveList(folder, records);
    await using client = new Client({ endpoint: `unix:${server.socket}` });
    const [raw, ours] = await alternate(
      ROUNDS * 2,
      () => bare(agent, server.socket, '/1.0/instances?recursion=1'),
      async () => {
        const all = await client.instances.all({ recursion: 1 });
        if (all.at(-1)?.status === undefined || all.length !== INSTANCES) throw new Error('the list is not whole');
      },
    );
    return {
      name: `${INSTANCES} instances to objects`,
      bare: raw,
      ours,
      pylxd: await pylxd('objects', server.socket, ROUNDS),
      goal: '< 40 ms over transfer',
      met: ours - raw < 40,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function executes(client: Client, stateDir: string, socket: string): Promise<Row> {
  const instance = await client.instances.get('c1');
  const env = { LXD_DIR: stateDir, LXD_CONF: join(stateDir, 'lxc-conf') };
  const [lxc, ours] = await alternate(
    ROUNDS * 2,
    () => command('lxc', ['exec', 'c1', '--', 'true'], { env }),
    async () => {
      const { exitCode } = await instance.execute(['true']);
      if (exitCode !== 0) throw new Error(`true ended with ${exitCode}`);
    },
  );
  return {
    name: "execute('true') (bare: lxc exec)",
    bare: lxc,
    ours,
    pylxd: await pylxd('execute', socket, ROUNDS),
    goal: '< 5 ms over lxc exec',
    met: ours - lxc < 5,
  };
}

function table(rows: readonly Row[]): string {
  const ms = (value: number | undefined): string => (value === undefined ? 'not installed' : `${value.toFixed(2)} ms`);
  const lines = rows.map(({ name, bare: raw, ours, pylxd: theirs, goal, met }) => {
    const faster = theirs === undefined ? '' : `${(theirs / ours).toFixed(1)}x`;
    const over = `${(ours - raw).toFixed(2)} ms`;
    return `| ${name} | ${ms(raw)} | ${ms(ours)} | ${over} | ${goal} | ${met ? 'yes' : 'no'} | ${ms(theirs)} | ${faster} |`;
  });
  return [
    '| what | bare | client | difference | goal | met | pylxd 2.2.10 | faster than pylxd |',
    '|---|---|---|---|---|---|---|---|',
    ...lines,
    '',
  ].join('\n');
}

async function main(): Promise<void> {
  await using daemon = await startDaemon();
  await using client = new Client({ endpoint: `unix:${daemon.socket}` });
  const agent = new Agent({ keepAlive: true });
  const image = await tinyImage();
  await client.storagePools.create({ name: 'pool', driver: 'dir' });
  await client.profiles
    .get('default')
    .then((one) => one.patch({ devices: { root: { type: 'disk', path: '/', pool: 'pool' } } }));
  const made = await client.images.create(createReadStream(image.rootfs), {
    metadata: createReadStream(image.metadata),
  });
  await made.addAlias('tiny');
  await using instance = await client.instances.create({
    name: 'c1',
    source: { type: 'image', alias: 'tiny' },
    start: true,
  });
  const rows = [
    await requests(client, daemon.socket, agent),
    await objects(instance.record, agent),
    await executes(client, daemon.stateDir, daemon.socket),
  ];
  agent.destroy();
  process.stdout.write(table(rows));
}

if (fileURLToPath(import.meta.url) === process.argv[1]) await main();
