import {
  type CephCluster,
  type CephClusterOptions,
  command,
  type CommandResult,
  startCeph,
  startDaemon,
  type TestDaemon,
} from '@keelson/testkit';

export interface CephWorldOptions extends CephClusterOptions {
  /** One that is there, and stays. */
  readonly cluster?: CephCluster;
}

/** A Ceph cluster, a daemon that uses it, and the unmodified `lxc` against that. */
export class CephWorld implements AsyncDisposable {
  readonly cluster: CephCluster;
  readonly daemon: TestDaemon;
  readonly #ownsCluster: boolean;

  private constructor(cluster: CephCluster, daemon: TestDaemon, ownsCluster: boolean) {
    this.cluster = cluster;
    this.daemon = daemon;
    this.#ownsCluster = ownsCluster;
  }

  static async open({ cluster: given, ...options }: CephWorldOptions = {}): Promise<CephWorld> {
    const cluster = given ?? (await startCeph(options));
    try {
      const daemon = await startDaemon({
        env: { KEELSON_CEPH_DIR: cluster.folder },
        // After a crash it starts once its pools are in order: dozens of commands of Ceph's, a second each on a busy machine.
        readyTimeoutMs: 240_000,
      });
      return new CephWorld(cluster, daemon, given === undefined);
    } catch (error) {
      if (given === undefined) await cluster[Symbol.asyncDispose]();
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
    try {
      await this.daemon[Symbol.asyncDispose]();
    } finally {
      if (this.#ownsCluster) await this.cluster[Symbol.asyncDispose]();
    }
  }
}
