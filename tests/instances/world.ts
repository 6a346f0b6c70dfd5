import {
  command,
  type CommandResult,
  startDaemon,
  subnets,
  type TestDaemon,
  type TestSubnet,
  tinyImage,
} from '@keelson/testkit';

export interface WorldOptions {
  /** Whether there is a bridge, and a nic on it in the default profile; default true. */
  readonly network?: boolean;
}

/** A daemon with a `dir` pool, a bridge, a default profile that uses both, and the image `tiny`. */
export class InstanceWorld implements AsyncDisposable {
  readonly daemon: TestDaemon;
  readonly #subnet: TestSubnet;

  private constructor(daemon: TestDaemon, subnet: TestSubnet) {
    this.daemon = daemon;
    this.#subnet = subnet;
  }

  static async open({ network = true }: WorldOptions = {}): Promise<InstanceWorld> {
    const subnet = subnets.take();
    try {
      const daemon = await startDaemon();
      const world = new InstanceWorld(daemon, subnet);
      try {
        await world.#setUp(network);
        return world;
      } catch (error) {
        await daemon[Symbol.asyncDispose]();
        throw error;
      }
    } catch (error) {
      await subnet[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #setUp(network: boolean): Promise<void> {
    const { bridge } = this.#subnet;
    await this.daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
    if (network) await this.makeNetwork();
    const nic = { eth0: { type: 'nic', network: bridge } };
    await this.daemon.run('PUT', '/1.0/profiles/default', {
      devices: { root: { type: 'disk', path: '/', pool: 'p' }, ...(network ? nic : {}) },
    });
    const { metadata, rootfs } = await tinyImage();
    await this.ok('image', 'import', metadata, rootfs, '--alias', 'tiny');
  }

  /** The bridge of the default profile. */
  async makeNetwork(): Promise<void> {
    const { bridge, address } = this.#subnet;
    const config = { 'ipv4.address': address, 'ipv6.address': 'none' };
    await this.daemon.run('POST', '/1.0/networks', { name: bridge, config });
  }

  get bridge(): string {
    return this.#subnet.bridge;
  }

  /** The unmodified `lxc` client against this daemon; resolves whatever its exit code is. */
  lxc(...args: string[]): Promise<CommandResult> {
    return command('lxc', args, { env: { LXD_DIR: this.daemon.stateDir }, anyExit: true, timeoutMs: 120_000 });
  }

  /** Its standard output. @throws Error unless it exits 0. */
  async ok(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.lxc(...args);
    if (code !== 0) throw new Error(`lxc ${args.join(' ')}: ${code} ${stderr}`);
    return stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.#subnet[Symbol.asyncDispose]();
  }
}
