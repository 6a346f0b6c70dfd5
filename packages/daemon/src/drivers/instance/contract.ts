import type { Duplex, Readable, Writable } from 'node:stream';

/** Host ids `base … base+size-1` stand for guest ids 0 … size-1. */
export interface IdRange {
  readonly base: number;
  readonly size: number;
}

export interface NicSpec {
  /** Device name in the instance's config. */
  readonly device: string;
  /** Interface name in the guest, for example `eth0`. */
  readonly name: string;
  readonly kind: 'veth' | 'macvlan' | 'phys' | 'ipvlan';
  /** Bridge (veth) or parent (macvlan, phys). */
  readonly link: string;
  /** Host side name of a veth. */
  readonly hostName: string;
  readonly hwaddr: string;
  readonly mtu: number | undefined;
}

export interface MountSpec {
  readonly device: string;
  /** Host path (folder, file or device node). */
  readonly source: string;
  /** Absolute path in the guest. */
  readonly target: string;
  readonly readOnly: boolean;
  readonly optional: boolean;
  readonly recursive: boolean;
  /** `shift`: guest ids map onto the source's plain ids through an idmapped mount. */
  readonly shift: boolean;
  /** What to create in the guest when the target is absent; default: found by looking at the source. */
  readonly kind?: 'folder' | 'file';
  /** Extra mount options, already checked. */
  readonly options: readonly string[];
}

export interface UnixDeviceSpec {
  readonly device: string;
  readonly kind: 'char' | 'block';
  readonly target: string;
  readonly major: number;
  readonly minor: number;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

/** Resource limits, parsed. Undefined = no limit. */
export interface LimitsSpec {
  /** CPU ids to pin to, already chosen from `limits.cpu`. */
  readonly cpus: readonly number[] | undefined;
  /** `limits.cpu.allowance`: share in percent (soft), or quota µs per period µs (hard). */
  readonly cpuAllowance: { readonly percent: number } | { readonly quota: number; readonly period: number } | undefined;
  /** 0–10. */
  readonly cpuPriority: number | undefined;
  /** Bytes. */
  readonly memory: number | undefined;
  readonly memoryEnforce: 'hard' | 'soft';
  readonly memorySwap: boolean;
  readonly processes: number | undefined;
  /** `limits.kernel.*`: resource name (for example `nofile`) to `soft:hard`. */
  readonly kernel: Readonly<Record<string, string>>;
  /** Bytes or I/O operations per second. `device`: a host block device (`major:minor`), or a path on it. */
  readonly disks: readonly {
    readonly device: string;
    readonly readBps?: number;
    readonly readIops?: number;
    readonly writeBps?: number;
    readonly writeIops?: number;
  }[];
}

export interface InstanceRef {
  /** `instanceKey(project, name)`: unique on the host. */
  readonly key: string;
  readonly project: string;
  readonly name: string;
}

/** Everything needed to start a guest; a pure function of records, already resolved by the service. */
export interface StartSpec extends InstanceRef {
  readonly rootfs: { readonly path: string; readonly ids: 'shifted' | 'plain'; readonly readOnly: boolean };
  readonly idRange: IdRange | undefined;
  readonly hostname: string;
  readonly architecture: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly nics: readonly NicSpec[];
  readonly mounts: readonly MountSpec[];
  readonly unixDevices: readonly UnixDeviceSpec[];
  readonly limits: LimitsSpec;
  /** `linux.sysctl.*`: name to value. */
  readonly sysctls?: Readonly<Record<string, string>>;
  readonly nesting: boolean;
  readonly privileged: boolean;
  /** Remaining `security.*` keys that shape the guest (syscalls filters, protection, …). */
  readonly security: Readonly<Record<string, string>>;
  readonly rawLxc: string;
  /** Log and console files go here (exists, 0700). */
  readonly logDir: string;
}

export type GuestStatus = 'Stopped' | 'Running' | 'Frozen' | 'Error';

export interface GuestState {
  readonly status: GuestStatus;
  /** Host pid of the guest's init; 0 when stopped. */
  readonly pid: number;
}

/** Counters as LXD's InstanceState shows them; read from /proc and cgroup files, no process started. */
export interface GuestMetrics {
  /** Nanoseconds. */
  readonly cpuUsage: number;
  /** Bytes. */
  readonly memory: {
    readonly usage: number;
    readonly usagePeak: number;
    readonly swapUsage: number;
    readonly swapUsagePeak: number;
  };
  readonly processes: number;
  readonly network: Readonly<Record<string, GuestInterface>>;
}

export interface GuestInterface {
  readonly addresses: readonly {
    readonly family: 'inet' | 'inet6';
    readonly address: string;
    readonly netmask: string;
    readonly scope: 'local' | 'link' | 'global';
  }[];
  readonly counters: {
    readonly bytesReceived: number;
    readonly bytesSent: number;
    readonly packetsReceived: number;
    readonly packetsSent: number;
    readonly errorsReceived: number;
    readonly errorsSent: number;
    readonly packetsDroppedOutbound: number;
    readonly packetsDroppedInbound: number;
  };
  readonly hwaddr: string;
  readonly hostName: string;
  readonly mtu: number;
  readonly state: 'up' | 'down';
  readonly type: string;
}

export interface ExecSpec {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly user: number;
  readonly group: number;
  /** Absolute guest path; empty = the user's home or `/root`, as LXD. */
  readonly cwd: string;
  readonly terminal: { readonly width: number; readonly height: number } | undefined;
}

/** A running command in a guest. */
export interface ExecProcess {
  /** Set when a terminal was asked for: both directions of the PTY. */
  readonly terminal: Duplex | undefined;
  /** Set when not: three plain streams. */
  readonly stdio: { readonly stdin: Writable; readonly stdout: Readable; readonly stderr: Readable } | undefined;
  resize(width: number, height: number): void;
  /** Signal number to the command itself (not only to the attaching process). */
  signal(number: number): void;
  /**
   * Exit code; 128+n when a signal ended it; 127/126 when it could not be run. Never rejects. Settles when the command
   * itself has ended: its output streams end by themselves, later where a child of it still holds them.
   */
  readonly exited: Promise<number>;
  /** Ends the command and frees everything. Idempotent. */
  dispose(): Promise<void>;
}

export interface GuestEvent {
  readonly key: string;
  /** `stopped`: it ended, by itself or not; `rebooted`: its init asked for a reboot and it runs again or is about to. */
  readonly type: 'stopped' | 'rebooted';
}

/** Runs guests of one type. One object serves all instances. */
export interface InstanceDriver {
  readonly type: 'container' | 'virtual-machine';
  probe(): Promise<{ supported: boolean; reason?: string; name: string; version: string }>;
  /** Resolves when the guest's init runs. On failure nothing runs and the error carries the last lines of the guest's start log. */
  start(spec: StartSpec, signal?: AbortSignal): Promise<GuestState>;
  /** Asks the guest to shut down; resolves when stopped. @throws after `timeoutMs` with the guest untouched. */
  shutdown(ref: InstanceRef, timeoutMs: number, signal?: AbortSignal): Promise<void>;
  /** Ends the guest at once; resolves when no process, cgroup or veth of it is left. Idempotent. */
  kill(ref: InstanceRef): Promise<void>;
  freeze(ref: InstanceRef): Promise<void>;
  unfreeze(ref: InstanceRef): Promise<void>;
  /** From memory; kept right by watching the guests. */
  state(key: string): GuestState;
  metrics(key: string): Promise<GuestMetrics | undefined>;
  exec(ref: InstanceRef, spec: ExecSpec): Promise<ExecProcess>;
  /** Attaches to the console; bytes written before attaching are in `consoleLog`. */
  console(ref: InstanceRef, size: { width: number; height: number }): Promise<ExecProcess>;
  consoleLog(ref: InstanceRef): Promise<Buffer>;
  clearConsoleLog(ref: InstanceRef): Promise<void>;
  /** Applies changed limits to a running guest; `limits.kernel` takes effect at its next start. @throws bad-request naming the limit the kernel refuses. */
  updateLimits(ref: InstanceRef, limits: LimitsSpec): Promise<void>;
  /** Hot-plugs into a running guest. */
  attachNic(ref: InstanceRef, nic: NicSpec): Promise<void>;
  detachNic(ref: InstanceRef, nic: NicSpec): Promise<void>;
  attachMount(ref: InstanceRef, mount: MountSpec): Promise<void>;
  detachMount(ref: InstanceRef, mount: MountSpec): Promise<void>;
  attachUnixDevice(ref: InstanceRef, device: UnixDeviceSpec): Promise<void>;
  detachUnixDevice(ref: InstanceRef, device: UnixDeviceSpec): Promise<void>;
  /** At daemon start: finds guests that run and cleans what a crash left of others. `known` = every instance with a record. */
  recover(known: readonly InstanceRef[]): Promise<void>;
  /** Removes configuration and runtime files of a stopped guest. */
  forget(ref: InstanceRef): Promise<void>;
  subscribe(listener: (event: GuestEvent) => void): () => void;
  dispose(): Promise<void>;
}
