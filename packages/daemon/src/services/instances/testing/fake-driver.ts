import { PassThrough } from 'node:stream';
import { errors } from '../../../core/errors.ts';
import type {
  ExecProcess,
  ExecSpec,
  GuestEvent,
  GuestMetrics,
  GuestState,
  InstanceDriver,
  InstanceRef,
  LimitsSpec,
  MountSpec,
  NicSpec,
  StartSpec,
  UnixDeviceSpec,
} from '../../../drivers/instance/contract.ts';

const STOPPED: GuestState = { status: 'Stopped', pid: 0 };

/** Guests that exist in memory only; keeps the contract of instance drivers. */
export class FakeInstanceDriver implements InstanceDriver {
  readonly type = 'container';
  /** What was done, in order. */
  readonly calls: string[] = [];
  readonly specs = new Map<string, StartSpec>();
  readonly limits = new Map<string, LimitsSpec>();
  /** Set to make the next start fail. */
  failStart: Error | undefined;
  /** Set to make guests ignore a shutdown. */
  deaf = false;
  /** Answers exec; default: exit 0 at once. */
  onExec: (spec: ExecSpec) => { stdout?: string; stderr?: string; code: number } = () => ({ code: 0 });
  readonly #guests = new Map<string, GuestState>();
  readonly #listeners = new Set<(event: GuestEvent) => void>();
  #pid = 1000;

  probe() {
    return Promise.resolve({ supported: true, name: 'fake', version: '1' });
  }

  async start(spec: StartSpec): Promise<GuestState> {
    this.calls.push(`start ${spec.key}`);
    if (this.failStart !== undefined) throw this.failStart;
    if (this.#guests.has(spec.key)) throw errors.badRequest('The instance is already running');
    const state: GuestState = { status: 'Running', pid: ++this.#pid };
    this.#guests.set(spec.key, state);
    this.specs.set(spec.key, spec);
    return state;
  }

  async shutdown(ref: InstanceRef, timeoutMs: number): Promise<void> {
    this.calls.push(`shutdown ${ref.key}`);
    if (this.deaf) throw errors.badRequest(`No answer within ${timeoutMs} ms`);
    this.#end(ref.key, 'stopped');
  }

  async kill(ref: InstanceRef): Promise<void> {
    this.calls.push(`kill ${ref.key}`);
    this.#end(ref.key, 'stopped');
  }

  /** The guest ends by itself. */
  powerOff(key: string): void {
    this.#end(key, 'stopped');
  }

  #end(key: string, type: GuestEvent['type']): void {
    if (!this.#guests.delete(key)) return;
    for (const listener of this.#listeners) listener({ key, type });
  }

  async freeze(ref: InstanceRef): Promise<void> {
    this.#guests.set(ref.key, { ...this.state(ref.key), status: 'Frozen' });
  }

  async unfreeze(ref: InstanceRef): Promise<void> {
    this.#guests.set(ref.key, { ...this.state(ref.key), status: 'Running' });
  }

  state(key: string): GuestState {
    return this.#guests.get(key) ?? STOPPED;
  }

  async metrics(key: string): Promise<GuestMetrics | undefined> {
    if (!this.#guests.has(key)) return undefined;
    const memory = { usage: 4096, usagePeak: 8192, swapUsage: 0, swapUsagePeak: 0 };
    return { cpuUsage: 1_000_000, memory, processes: 3, network: {} };
  }

  async exec(_ref: InstanceRef, spec: ExecSpec): Promise<ExecProcess> {
    const answer = this.onExec(spec);
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
    stdin.resume();
    stdout.end(answer.stdout ?? '');
    stderr.end(answer.stderr ?? '');
    return {
      terminal: spec.terminal === undefined ? undefined : stdout,
      stdio: spec.terminal === undefined ? { stdin, stdout, stderr } : undefined,
      resize: (width, height) => void this.calls.push(`resize ${width}x${height}`),
      signal: (number) => void this.calls.push(`signal ${number}`),
      exited: Promise.resolve(answer.code),
      dispose: () => Promise.resolve(),
    };
  }

  console(ref: InstanceRef): Promise<ExecProcess> {
    return this.exec(ref, {
      command: [],
      environment: {},
      user: 0,
      group: 0,
      cwd: '',
      terminal: { width: 80, height: 25 },
    });
  }

  async consoleLog(): Promise<Buffer> {
    return Buffer.from('booted\n');
  }

  async clearConsoleLog(): Promise<void> {}

  async updateLimits(ref: InstanceRef, limits: LimitsSpec): Promise<void> {
    this.calls.push(`limits ${ref.key}`);
    this.limits.set(ref.key, limits);
  }

  async attachNic(_ref: InstanceRef, nic: NicSpec): Promise<void> {
    this.calls.push(`attach nic ${nic.device}`);
  }

  async detachNic(_ref: InstanceRef, nic: NicSpec): Promise<void> {
    this.calls.push(`detach nic ${nic.device}`);
  }

  async attachMount(_ref: InstanceRef, mount: MountSpec): Promise<void> {
    this.calls.push(`attach mount ${mount.device}`);
  }

  async detachMount(_ref: InstanceRef, mount: MountSpec): Promise<void> {
    this.calls.push(`detach mount ${mount.device}`);
  }

  async attachUnixDevice(_ref: InstanceRef, device: UnixDeviceSpec): Promise<void> {
    this.calls.push(`attach unix ${device.device}`);
  }

  async detachUnixDevice(_ref: InstanceRef, device: UnixDeviceSpec): Promise<void> {
    this.calls.push(`detach unix ${device.device}`);
  }

  async recover(): Promise<void> {}

  async forget(ref: InstanceRef): Promise<void> {
    this.calls.push(`forget ${ref.key}`);
  }

  subscribe(listener: (event: GuestEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async dispose(): Promise<void> {}
}
