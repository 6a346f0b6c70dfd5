import {
  command,
  debianImage,
  request,
  startDaemon,
  startLxd,
  type TestSubnet,
  subnets,
  until,
} from '@keelson/testkit';
import { createReadStream, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A server under measurement, set up alike: pools `dir` and `bt` (btrfs), a bridge, the Debian image as `deb`. */
export interface BenchServer {
  readonly name: string;
  /** `LXD_DIR` for the lxc client. */
  readonly dir: string;
  readonly socket: string;
  readonly pid: number;
  readonly fingerprint: string;
  readonly bridge: string;
  /** 99th percentile of how late the server's event loop was while `work` ran, milliseconds; where it can be measured. */
  readonly loopDelay?: (work: () => Promise<void>) => Promise<number>;
}

/** Runs a request to the end of its background operation. @throws Error with the server's words */
export async function act(server: BenchServer, method: string, path: string, body?: unknown): Promise<void> {
  const { body: answer, status } = await request<{ err: string; status_code: number }>(
    server.socket,
    method,
    path,
    body,
  );
  if (status >= 400) throw new Error(`${server.name} ${method} ${path}: ${answer.error}`);
  if (answer.type !== 'async') return;
  const done = await request<{ err: string; status_code: number }>(
    server.socket,
    'GET',
    `${answer.operation}/wait`,
    undefined,
    { timeoutMs: 300_000 },
  );
  if (done.body.metadata.status_code !== 200)
    throw new Error(`${server.name} ${method} ${path}: ${done.body.metadata.err}`);
}

async function importImage(socket: string): Promise<string> {
  const { metadata, rootfs } = await debianImage();
  const boundary = 'bench-boundary';
  const head = (name: string): string =>
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"; filename="${name}"\r\nContent-Type: application/octet-stream\r\n\r\n`;
  const operation = await new Promise<string>((resolve, reject) => {
    const sent = httpRequest(
      {
        socketPath: socket,
        method: 'POST',
        path: '/1.0/images',
        headers: { 'Content-Type': `multipart/form-data; boundary=${boundary}` },
      },
      (response) => {
        let text = '';
        response.on('data', (chunk: Buffer) => (text += chunk.toString()));
        response.on('end', () => resolve((JSON.parse(text) as { operation: string }).operation));
      },
    );
    sent.on('error', reject);
    sent.write(head('metadata'));
    sent.write(readFileSync(metadata));
    sent.write(`\r\n${head('rootfs')}`);
    const file = createReadStream(rootfs);
    file.on('end', () => sent.end(`\r\n--${boundary}--\r\n`));
    file.pipe(sent, { end: false });
  });
  const done = await request<{ metadata: { fingerprint: string } }>(socket, 'GET', `${operation}/wait`, undefined, {
    timeoutMs: 300_000,
  });
  return done.body.metadata.metadata.fingerprint;
}

async function makePools(server: BenchServer): Promise<void> {
  await act(server, 'POST', '/1.0/storage-pools', { name: 'dir', driver: 'dir', config: {} });
  await act(server, 'POST', '/1.0/storage-pools', { name: 'bt', driver: 'btrfs', config: { size: '20GiB' } });
}

async function setUp(bare: Omit<BenchServer, 'fingerprint' | 'bridge'>, net: TestSubnet): Promise<BenchServer> {
  const server = { ...bare, fingerprint: '', bridge: net.bridge };
  await makePools(server);
  await act(server, 'POST', '/1.0/networks', {
    name: net.bridge,
    config: { 'ipv4.address': net.address, 'ipv4.nat': 'true', 'ipv6.address': 'none' },
  });
  await act(server, 'PATCH', '/1.0/profiles/default', {
    devices: { eth0: { type: 'nic', network: net.bridge, name: 'eth0' } },
  });
  const fingerprint = await importImage(bare.socket);
  await act(server, 'POST', '/1.0/images/aliases', { name: 'deb', target: fingerprint });
  return { ...server, fingerprint };
}

/** Starts Keelson from its bundle and Debian's LXD; `stack` takes them down. */
export async function startServers(stack: AsyncDisposableStack): Promise<BenchServer[]> {
  const servers: BenchServer[] = [];
  const scratch = mkdtempSync(join(tmpdir(), 'keelson-bench-'));
  stack.defer(() => rmSync(scratch, { recursive: true }));
  const delayFile = join(scratch, 'loop-delay');
  const preload = `--import=${new URL('./loop-delay.mjs', import.meta.url).href}`;
  const env = { NODE_OPTIONS: preload, BENCH_LOOP_DELAY: delayFile };
  const keelson = stack.use(await startDaemon({ bundle: true, env }));
  const loopDelay = (work: () => Promise<void>): Promise<number> => measureLoop(keelson.pid, delayFile, work);
  servers.push(
    await setUp(
      { name: 'Keelson', dir: keelson.stateDir, socket: keelson.socket, pid: keelson.pid, loopDelay },
      stack.use(subnets.take()),
    ),
  );
  const lxd = stack.use(await startLxd());
  const { body } = await lxd.request<{ environment: { server_pid: number } }>('GET', '/1.0');
  const pid = body.metadata.environment.server_pid;
  servers.push(await setUp({ name: 'LXD 5.0.2', dir: lxd.dir, socket: lxd.socket, pid }, stack.use(subnets.take())));
  return servers;
}

/** A second one of each, with pools only: where instances are copied to. */
export async function startTargets(stack: AsyncDisposableStack): Promise<BenchServer[]> {
  const keelson = stack.use(await startDaemon({ bundle: true }));
  const lxd = stack.use(await startLxd());
  const bare = { fingerprint: '', bridge: '', pid: 0 };
  const targets = [
    { ...bare, name: 'Keelson', dir: keelson.stateDir, socket: keelson.socket },
    { ...bare, name: 'LXD 5.0.2', dir: lxd.dir, socket: lxd.socket },
  ];
  for (const target of targets) await makePools(target);
  return targets;
}

async function measureLoop(pid: number, file: string, work: () => Promise<void>): Promise<number> {
  rmSync(file, { force: true });
  process.kill(pid, 'SIGUSR2');
  await work();
  process.kill(pid, 'SIGUSR2');
  await until('the delay of the event loop', () => Promise.resolve(existsSync(file)));
  return Number(readFileSync(file, 'utf8'));
}

/** Resident memory of a process in MB. */
export function memoryOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
}

export { command };
