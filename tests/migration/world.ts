import { mkdtempSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Instance } from '@keelson/api';
import {
  command,
  type CommandResult,
  freePort,
  startDaemon,
  startLxd,
  type TestDaemon,
  type TestPeer,
  tinyImage,
} from '@keelson/testkit';
import { type Manifest, manifestOf } from './manifest.ts';

export type PoolDriver = 'dir' | 'btrfs' | 'ceph';

const POOL_CONFIG: Readonly<Record<PoolDriver, readonly string[]>> = {
  dir: [],
  btrfs: ['size=400MiB'],
  ceph: ['ceph.osd.pg_num=4', 'volume.size=256MiB'],
};

/** A server of the world: ours or LXD's. */
export interface Side {
  readonly name: string;
  readonly dir: string;
  readonly daemon: TestDaemon | undefined;
  request: TestPeer['request'];
}

/** Servers that know each other, and Debian's `lxc` that knows them all. */
export class MigrationWorld implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'keelson-migration-'));
  readonly #stack = new AsyncDisposableStack();
  readonly sides = new Map<string, Side>();

  /** A daemon of ours with a pool `p` of each driver: `p-dir`, `p-btrfs`. */
  async keelson(
    name: string,
    drivers: readonly PoolDriver[] = ['dir'],
    options: { readonly env?: Readonly<Record<string, string>> } = {},
  ): Promise<Side> {
    const daemon = this.#stack.use(await startDaemon(options));
    const side: Side = {
      name,
      dir: daemon.stateDir,
      daemon,
      request: (method, path, body, options) => daemon.request(method, path, body, options),
    };
    await this.#join(side, `127.0.0.1:${await freePort()}`, drivers); // the same after a restart
    return side;
  }

  /** Debian's LXD; `shift`: it writes the ids of its range to disk, as on kernels without id-mapped mounts. */
  async lxd(name: string, drivers: readonly PoolDriver[] = ['dir'], options: { shift?: boolean } = {}): Promise<Side> {
    const env = options.shift === true ? { LXD_IDMAPPED_MOUNTS_DISABLE: '1' } : {};
    const peer = this.#stack.use(await startLxd({ env }));
    const side: Side = { name, dir: peer.dir, daemon: undefined, request: peer.request };
    await this.#join(side, `127.0.0.1:${await freePort()}`, drivers);
    return side;
  }

  async #join(side: Side, address: string, drivers: readonly PoolDriver[]): Promise<void> {
    await side.request('PATCH', '/1.0', { config: { 'core.https_address': address, 'core.trust_password': 'sesame' } });
    const { body } = await side.request<{ environment: { addresses: string[] } }>('GET', '/1.0');
    const [where = address] = body.metadata.environment.addresses;
    this.sides.set(side.name, side);
    await this.ok('remote', 'add', side.name, `https://${where}`, '--accept-certificate', '--password', 'sesame');
    for (const driver of drivers) {
      await this.ok('storage', 'create', `${side.name}:p-${driver}`, driver, ...POOL_CONFIG[driver]);
    }
    await this.ok(
      'profile',
      'device',
      'add',
      `${side.name}:default`,
      'root',
      'disk',
      'path=/',
      `pool=p-${drivers[0] ?? ''}`,
    );
  }

  async image(side: Side): Promise<void> {
    const { metadata, rootfs } = await tinyImage();
    await this.ok('image', 'import', metadata, rootfs, `${side.name}:`, '--alias', 'tiny');
  }

  run(...args: string[]): Promise<CommandResult> {
    return command('lxc', args, {
      env: { LXD_CONF: this.folder, HOME: this.folder, LXD_DIR: '' },
      anyExit: true,
      timeoutMs: 120_000,
    });
  }

  async ok(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...args);
    if (code !== 0) throw new Error(`lxc ${args.join(' ')}: ${code} ${stderr}`);
    return stdout;
  }

  async fails(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...args);
    if (code === 0) throw new Error(`lxc ${args.join(' ')} succeeded: ${stdout}`);
    return stderr.trim();
  }

  async instance(side: Side, name: string): Promise<Instance> {
    return (await side.request<Instance>('GET', `/1.0/instances/${name}`)).body.metadata;
  }

  /** What a running instance sees of `path`, with guest ids. */
  async manifestIn(side: Side, name: string, path = '/nasty'): Promise<Manifest> {
    const { body } = await side.request<{ pid: number }>('GET', `/1.0/instances/${name}/state`);
    const { pid } = body.metadata;
    const map = await readFile(`/proc/${pid}/uid_map`, 'utf8');
    const base = Number(map.trim().split(/\s+/)[1]);
    return manifestOf(`/proc/${pid}/root${path}`, base);
  }

  /** Starts the instance for the time it takes to look. */
  async look(side: Side, name: string, path = '/nasty'): Promise<Manifest> {
    await this.ok('start', `${side.name}:${name}`);
    try {
      return await this.manifestIn(side, name, path);
    } finally {
      await this.ok('stop', '--force', `${side.name}:${name}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
