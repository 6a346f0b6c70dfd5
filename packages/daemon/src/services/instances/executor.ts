import type { InstanceConsolePost, InstanceExecPost } from '@keelson/api';
import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { errors } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import type { ExecProcess, ExecSpec } from '../../drivers/instance/contract.ts';
import type { InstanceRecord, InstanceType } from '../../state/records/instance.ts';
import type { OperationContext, OperationSpec, StartedOperation } from '../operations/contract.ts';
import type { By, InstanceContext } from './context.ts';
import { drained, type Output } from './drained.ts';
import { followControl } from './exec-control.ts';
import { execEnvironment } from './plan/exec-environment.ts';
import { type Activity, receiveStream, sendStream } from './socket-pump.ts';
import { OperationSockets } from './sockets.ts';

const SECRET_DIGITS = 64;

/** Runs commands in guests and attaches to their consoles. */
export class InstanceExecutor {
  readonly #context: InstanceContext;

  constructor(context: InstanceContext) {
    this.#context = context;
  }

  /** `POST /1.0/instances/<name>/exec`. @throws not-found, bad-request unless the guest runs. */
  exec(
    project: string,
    name: string,
    body: InstanceExecPost,
    options: By & { readonly type?: InstanceType | undefined } = {},
  ): StartedOperation {
    const record = this.#running(project, name, options.type);
    const config = this.#context.expand(record).config;
    checkCommand(body);
    // A terminal needs somebody in front of it.
    const interactive = body.interactive === true && body['wait-for-websocket'] === true;
    const user = body.user ?? 0;
    const environment = execEnvironment(config, body.environment ?? {}, user);
    const spec: ExecSpec = {
      command: body.command,
      environment,
      user,
      group: body.group ?? 0,
      cwd: body.cwd ?? '',
      terminal: interactive ? { width: positive(body.width, 80), height: positive(body.height, 25) } : undefined,
    };
    const common = {
      project,
      description: 'Executing command',
      resources: this.#context.resources(project, name),
    };
    const started =
      body['wait-for-websocket'] === true
        ? this.#overSockets(record, spec, common)
        : this.#alone(record, spec, body['record-output'] === true, common);
    this.#context.lifecycle('instance-exec', record, options, { context: { command: body.command } });
    return started;
  }

  /** `POST /1.0/instances/<name>/console`. */
  console(
    project: string,
    name: string,
    body: InstanceConsolePost,
    options: By & { readonly type?: InstanceType | undefined } = {},
  ): StartedOperation {
    const type = body.type ?? '';
    if (type !== '' && type !== 'console' && type !== 'vga') throw errors.badRequest(`Unknown console type "${type}"`);
    const record = this.#context.require(project, name, options.type);
    if (type === 'vga') throw errors.badRequest('VGA console is only supported by virtual machines');
    if (this.#context.status(record) !== 'Running') throw errors.badRequest('Instance is not running');
    const size = { width: positive(body.width, 80), height: positive(body.height, 25) };
    const sockets = new OperationSockets(['0']);
    const started = this.#start(
      { project, description: 'Showing console', resources: this.#context.resources(project, name) },
      sockets,
      { secrets: this.#secrets(['0', 'control']), metadata: {} },
      async ({ signal }) => {
        await sockets.connected(signal);
        const attached = await this.#context.deps.driver.console(this.#context.ref(record), size);
        await this.#attachTerminal(attached, sockets, signal);
      },
    );
    this.#context.lifecycle('instance-console', record, options, { context: { type: 'console' } });
    return started;
  }

  /** `GET /1.0/instances/<name>/console`. */
  async consoleLog(project: string, name: string, type?: InstanceType): Promise<Buffer> {
    return this.#context.deps.driver.consoleLog(this.#context.ref(this.#context.require(project, name, type)));
  }

  async clearConsoleLog(
    project: string,
    name: string,
    by: By & { readonly type?: InstanceType | undefined } = {},
  ): Promise<void> {
    const record = this.#context.require(project, name, by.type);
    await this.#context.deps.driver.clearConsoleLog(this.#context.ref(record));
    this.#context.lifecycle('instance-console-reset', record, by);
  }

  #running(project: string, name: string, type: InstanceType | undefined): InstanceRecord {
    const record = this.#context.require(project, name, type);
    const status = this.#context.status(record);
    if (status === 'Frozen') throw errors.badRequest('Instance is frozen');
    if (status !== 'Running') throw errors.badRequest('Instance is not running');
    return record;
  }

  #overSockets(record: InstanceRecord, spec: ExecSpec, common: Common): StartedOperation {
    const names = spec.terminal === undefined ? ['0', '1', '2'] : ['0'];
    const sockets = new OperationSockets(names);
    const metadata = { command: spec.command, environment: spec.environment, interactive: spec.terminal !== undefined };
    const shown = { secrets: this.#secrets([...names, 'control']), metadata };
    return this.#start(common, sockets, shown, async (operation) => {
      // The command starts while the client still connects the rest; what it says waits in its pipes.
      await sockets.begun(operation.signal);
      const process = await this.#context.deps.driver.exec(this.#context.ref(record), spec);
      await sockets.connected(operation.signal).catch(async (error: unknown) => {
        await process.dispose();
        throw error;
      });
      const code =
        spec.terminal === undefined
          ? await this.#attachStreams(process, sockets, operation.signal)
          : await this.#attachTerminal(process, sockets, operation.signal);
      return result(operation, code);
    });
  }

  #start(
    common: Common,
    sockets: OperationSockets,
    shown: {
      readonly secrets: Readonly<Record<string, string>>;
      readonly metadata: Readonly<Record<string, unknown>>;
    },
    run: OperationSpec['run'],
  ): StartedOperation {
    return this.#context.deps.operations.start({
      ...common,
      ...shown,
      class: 'websocket',
      connect: (name, socket) => sockets.connect(name, socket),
      run: async (operation) => {
        try {
          return await run(operation);
        } finally {
          sockets.close();
        }
      },
    });
  }

  async #attachTerminal(process: ExecProcess, sockets: OperationSockets, signal: AbortSignal): Promise<number> {
    return this.#attached(process, sockets, signal, () => {
      const terminal = process.terminal;
      if (terminal === undefined) throw errors.internal('The instance driver gave no terminal');
      const socket = sockets.get('0');
      void receiveStream(socket, terminal, { endTarget: false });
      socket.once('close', () => void process.dispose());
      // It always ends with the process, however long its reader takes.
      return { done: sendStream(terminal, socket), activities: [{ pieces: 0, busy: true }] };
    });
  }

  async #attachStreams(process: ExecProcess, sockets: OperationSockets, signal: AbortSignal): Promise<number> {
    return this.#attached(process, sockets, signal, () => {
      const stdio = process.stdio;
      if (stdio === undefined) throw errors.internal('The instance driver gave no streams');
      void receiveStream(sockets.get('0'), stdio.stdin, { endTarget: true });
      const [out, err] = [newActivity(), newActivity()];
      const done = Promise.all([
        sendStream(stdio.stdout, sockets.get('1'), out),
        sendStream(stdio.stderr, sockets.get('2'), err),
      ]);
      return { done, activities: [out, err] };
    });
  }

  async #attached(
    process: ExecProcess,
    sockets: OperationSockets,
    signal: AbortSignal,
    attach: () => Output,
  ): Promise<number> {
    const stop = (): void => void process.dispose();
    signal.addEventListener('abort', stop, { once: true });
    try {
      sockets.when('control', (socket) => followControl(socket, process));
      const output = attach();
      const code = await process.exited;
      await drained(output, signal);
      return code;
    } finally {
      signal.removeEventListener('abort', stop);
      await process.dispose();
    }
  }

  /** Without sockets: output is dropped, or kept in files of the instance's logs. */
  #alone(record: InstanceRecord, spec: ExecSpec, keep: boolean, common: Common): StartedOperation {
    return this.#context.deps.operations.start({
      ...common,
      class: 'task',
      run: async (operation) => {
        const process = await this.#context.deps.driver.exec(this.#context.ref(record), spec);
        const stop = (): void => void process.dispose();
        operation.signal.addEventListener('abort', stop, { once: true });
        try {
          const output = keep ? await this.#record(record, operation.id, process) : drop(process);
          const code = await process.exited;
          await drained(output, operation.signal);
          return result(operation, code, output.files);
        } finally {
          operation.signal.removeEventListener('abort', stop);
          await process.dispose();
        }
      },
    });
  }

  async #record(record: InstanceRecord, id: string, process: ExecProcess): Promise<Output> {
    const folder = this.#context.deps.paths.logs(instanceKey(record.project, record.name));
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const activities: Activity[] = [];
    const save = async (stream: Readable, file: string): Promise<void> => {
      // `wx`: a name that exists, a link included, is not written to.
      const target = createWriteStream(join(folder, file), { flags: 'wx', mode: 0o600 });
      activities.push({
        get pieces() {
          return target.bytesWritten;
        },
        get busy() {
          return target.writableLength > 0 && !target.destroyed;
        },
      });
      stream.pipe(target);
      await finished(target).catch(() => undefined);
    };
    const { terminal, stdio } = process;
    const url = (file: string): string => this.#context.url(record.project, record.name, `/logs/${file}`);
    const [out, err] = [`exec_${id}.stdout`, `exec_${id}.stderr`];
    if (terminal !== undefined) return { done: save(terminal, out), activities, files: { '1': url(out) } };
    if (stdio === undefined) return { done: Promise.resolve(), activities };
    stdio.stdin.end();
    return {
      done: Promise.all([save(stdio.stdout, out), save(stdio.stderr, err)]),
      activities,
      files: { '1': url(out), '2': url(err) },
    };
  }

  #secrets(names: readonly string[]): Record<string, string> {
    return Object.fromEntries(names.map((name) => [name, this.#context.deps.entropy.hex(SECRET_DIGITS)]));
  }
}

type Common = Pick<OperationSpec, 'project' | 'description' | 'resources'>;

const newActivity = (): Activity => ({ pieces: 0, busy: false });

function drop({ terminal, stdio }: ExecProcess): Output {
  terminal?.resume();
  terminal?.end();
  stdio?.stdin.on('error', () => undefined);
  stdio?.stdin.end();
  stdio?.stdout.resume();
  stdio?.stderr.resume();
  return { done: Promise.resolve(), activities: [] };
}

/** Metadata of an ended command. @throws bad-request when it could not be run at all. */
function result(
  operation: OperationContext,
  code: number,
  output?: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const metadata = { return: code, ...(output === undefined ? {} : { output }) };
  if (code !== 127 && code !== 126) return metadata;
  operation.update(metadata);
  throw errors.badRequest(code === 127 ? 'Command not found' : 'Command not executable');
}

/** @throws bad-request for what no process can be given. */
function checkCommand({ command, environment = {}, cwd = '' }: InstanceExecPost): void {
  if (command.length === 0) throw errors.badRequest('No command given');
  const texts = [...command, ...Object.entries(environment).flat(), cwd];
  if (texts.some((text) => text.includes('\0'))) throw errors.badRequest('A command cannot hold a NUL character');
  const name = Object.keys(environment).find((key) => key === '' || key.includes('='));
  if (name !== undefined) throw errors.badRequest(`Invalid name of an environment variable: "${name}"`);
}

function positive(value: number | undefined, fallback: number): number {
  return value !== undefined && value > 0 && value < 65_536 ? value : fallback;
}
