import {
  type CephCluster,
  type CephClusterOptions,
  command,
  type CommandResult,
  startCeph,
  startDaemon,
  type TestDaemon,
} from '@keelson/testkit';

/** A Ceph cluster, a daemon that uses it, and the unmodified `lxc` against that. */
export class CephWorld implements AsyncDisposable {
  readonly cluster: CephCluster;
  readonly daemon: TestDaemon;

  private constructor(cluster: CephCluster, daemon: TestDaemon) {
    this.cluster = cluster;
    this.daemon = daemon;
  }

  static async open(options: CephClusterOptions = {}): Promise<CephWorld> {
    const cluster = await startCeph(options);
    try {
      return new CephWorld(cluster, await startDaemon({ env: { KEELSON_CEPH_DIR: cluster.folder } }));
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Resolves whatever its exit code is. */
  lxc(...args: string[]): Promise<CommandResult> {
    return command('lxc', args, { env: { LXD_DIR: this.daemon.stateDir }, anyExit: true, timeoutMs: 300_000 });
  }

  /** Its output. @throws Error with its words when it fails. */
  async ok(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.lxc(...args);
    if (code !== 0) throw new Error(`lxc ${args.join(' ')}: ${code} ${stderr}`);
    return stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cluster.thaw();
    await this.daemon[Symbol.asyncDispose]();
    await this.cluster[Symbol.asyncDispose]();
  }
}
