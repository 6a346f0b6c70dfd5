import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command } from './command.ts';
import { removeLeftovers } from './leftovers.ts';
import { until } from './poll.ts';
import { allOf, type Probe, probePrograms, probeRoot } from './probes.ts';

/** A Ceph cluster of one node can be started here. */
export function probeCeph(...programs: readonly string[]): Probe {
  return allOf(probeRoot(), probePrograms('ceph-mon', 'ceph-osd', 'ceph-mds', 'ceph-mgr', 'ceph', 'rbd', ...programs));
}

export interface CephClusterOptions {
  /** With a CephFS called `fs`. */
  readonly fileSystem?: boolean;
}

/**
 * A real Ceph of one node on the loopback interface, its objects in memory. `folder` takes the place of `/etc/ceph`:
 * `ceph.conf` and the keyring of `client.admin` are in it.
 */
export class CephCluster implements AsyncDisposable {
  readonly folder: string;
  readonly #daemons = new Map<string, ChildProcess>();

  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'keelson-ceph-'));
  }

  get conf(): string {
    return join(this.folder, 'ceph.conf');
  }

  async start({ fileSystem = false }: CephClusterOptions): Promise<void> {
    const id = randomUUID();
    const address = `[v2:127.0.0.1:${await freePort()}/0]`;
    const daemons = fileSystem ? ['osd', 'mgr', 'mds'] : ['osd', 'mgr'];
    for (const name of ['mon', 'run', 'modules', ...daemons]) mkdirSync(join(this.folder, name));
    writeFileSync(this.conf, configuration(this.folder, id, address));
    await this.#makeKeyrings(daemons);
    const map = join(this.folder, 'monmap');
    await command('monmaptool', ['--create', '--fsid', id, '--addv', 'a', address, map]);
    const keyring = join(this.folder, 'mon.keyring');
    await this.#tool('ceph-mon', ['-i', 'a', '--mkfs', '--monmap', map, '--keyring', keyring]);
    this.#spawn('ceph-mon', 'a');
    const store = randomUUID();
    await until('the monitor', async () => (await this.#ceph('osd', 'new', store)).code === 0, { timeoutMs: 60_000 });
    await this.#tool('ceph-osd', ['-i', '0', '--mkfs', '--osd-uuid', store]);
    this.#spawn('ceph-osd', '0');
    this.#spawn('ceph-mgr', 'a');
    if (fileSystem) this.#spawn('ceph-mds', 'a');
    if (fileSystem) await this.#makeFileSystem();
    // Sizes are the manager's to tell.
    await until('the object store', async () => /"total_bytes":[1-9]/.test(await this.ceph('df', '-f', 'json')), {
      timeoutMs: 60_000,
      intervalMs: 200,
    });
  }

  /** Output of `ceph <args>`. */
  async ceph(...args: readonly string[]): Promise<string> {
    const done = await this.#ceph(...args);
    if (done.code !== 0) throw new Error(`ceph ${args.join(' ')}: ${done.stderr}`);
    return done.stdout;
  }

  /** Output of `rbd <args>`. */
  async rbd(...args: readonly string[]): Promise<string> {
    return (await this.#tool('rbd', args)).stdout;
  }

  /** Nothing answers until `thaw`, as if the network were cut. */
  freeze(): void {
    for (const child of this.#daemons.values()) child.kill('SIGSTOP');
  }

  thaw(): void {
    for (const child of this.#daemons.values()) child.kill('SIGCONT');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of [...this.#daemons.values()].toReversed()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    }
    await removeLeftovers(this.folder);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  async #makeFileSystem(): Promise<void> {
    await Promise.all([
      this.ceph('osd', 'pool', 'create', 'fs_meta', '4'),
      this.ceph('osd', 'pool', 'create', 'fs_data', '4'),
    ]);
    await this.ceph('fs', 'new', 'fs', 'fs_meta', 'fs_data');
    await until('the metadata server', async () => (await this.ceph('mds', 'stat')).includes('up:active'), {
      timeoutMs: 60_000,
      intervalMs: 100,
    });
  }

  async #makeKeyrings(daemons: readonly string[]): Promise<void> {
    const all = ['--cap', 'osd', 'allow *', '--cap', 'mds', 'allow *', '--cap', 'mgr', 'allow *'];
    const monitors = join(this.folder, 'mon.keyring');
    const make = (file: string, name: string, mon: string) =>
      command('ceph-authtool', ['--create-keyring', file, '--gen-key', '-n', name, '--cap', 'mon', mon, ...all]);
    await make(monitors, 'mon.', 'allow *');
    const admin = join(this.folder, 'ceph.client.admin.keyring');
    const made = [admin, ...daemons.map((name) => join(this.folder, name, 'keyring'))];
    await make(admin, 'client.admin', 'allow *');
    for (const name of daemons)
      await make(join(this.folder, name, 'keyring'), name === 'osd' ? 'osd.0' : `${name}.a`, `allow profile ${name}`);
    for (const file of made) await command('ceph-authtool', [monitors, '--import-keyring', file]);
  }

  #ceph(...args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    return command('ceph', ['--conf', this.conf, '--connect-timeout', '10', ...args], { anyExit: true });
  }

  #tool(program: string, args: readonly string[]): Promise<{ stdout: string }> {
    return command(program, ['--conf', this.conf, ...args]);
  }

  #spawn(program: string, id: string): void {
    const log = openSync(join(this.folder, `${program}.out`), 'a');
    const args = ['--conf', this.conf, '-i', id, '--foreground'];
    this.#daemons.set(program, spawn(program, args, { stdio: ['ignore', log, log] }));
  }
}

/** Starts a cluster; when it does not come up nothing of it is left. */
export async function startCeph(options: CephClusterOptions = {}): Promise<CephCluster> {
  const cluster = new CephCluster();
  try {
    await cluster.start(options);
    return cluster;
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

function configuration(folder: string, id: string, address: string): string {
  return `[global]
fsid = ${id}
mon host = ${address}
mon initial members = a
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
public network = 127.0.0.0/8
ms bind msgr1 = false
ms bind msgr2 = true
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon allow pool delete = true
mon warn on pool no redundancy = false
mon data avail crit = 1
mon data avail warn = 1
mon max pg per osd = 1000
paxos propose interval = 0.02
paxos min wait = 0.01
keyring = ${folder}/ceph.$name.keyring
run dir = ${folder}/run
admin socket = ${folder}/run/$name.$pid.asok
log file = ${folder}/$name.log
mon cluster log file = ${folder}/cluster.log
crash dir = ${folder}/run
[mon]
mon data = ${folder}/mon
keyring = ${folder}/mon.keyring
[osd]
osd data = ${folder}/osd
keyring = ${folder}/osd/keyring
osd objectstore = memstore
memstore device bytes = 8589934592
[mgr]
mgr data = ${folder}/mgr
keyring = ${folder}/mgr/keyring
mgr initial modules =
mgr module path = ${folder}/modules
mgr stats period = 1
[mds]
mds data = ${folder}/mds
mds cap revoke eviction timeout = 2
keyring = ${folder}/mds/keyring
`;
}
