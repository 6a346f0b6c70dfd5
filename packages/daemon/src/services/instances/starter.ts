import { isTrue } from '@keelson/api';
import { mkdir } from 'node:fs/promises';
import { errors } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type { LimitsSpec, MountSpec, NicSpec, StartSpec, UnixDeviceSpec } from '../../drivers/instance/contract.ts';
import type { RootMount } from '../../drivers/storage/contract.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import { type InstanceContext, idOf } from './context.ts';
import { CpuPins } from './cpu-pins.ts';
import { GuestDevices } from './guest-devices.ts';
import { INTENTS, type StartIntent } from './intents.ts';
import type { Effective } from './plan/changes.ts';
import { startOrder } from './plan/devices.ts';
import { isRootDisk } from './plan/expand.ts';
import { idMapText } from './plan/idmap.ts';
import { planLimits } from './plan/limits.ts';
import { planTemplates, templateEntries, type TemplateTrigger } from './plan/templates.ts';
import { settleNics } from './plan/volatile.ts';

interface Prepared {
  readonly nics: NicSpec[];
  readonly mounts: MountSpec[];
  readonly unixDevices: UnixDeviceSpec[];
  /** Volatile keys of the devices, complete. */
  readonly volatile: Record<string, string>;
}

/** Takes a stopped instance to a running guest, and a stopped guest's leftovers away. */
export class InstanceStarter {
  readonly devices: GuestDevices;
  readonly #context: InstanceContext;
  readonly #pins: CpuPins;

  constructor(context: InstanceContext) {
    this.#context = context;
    this.devices = new GuestDevices(context);
    this.#pins = new CpuPins();
    const { intents } = context.deps;
    intents.handle<StartIntent>(INTENTS.start, async (intent) => {
      const record = context.find(intent.data.project, intent.data.name);
      if (record !== undefined && !context.isRunning(record)) await this.cleanUp(record);
      await intents.end(intent);
    });
  }

  /** The instance must be stopped and locked. On failure nothing of it is left on the host. */
  async start(record: InstanceRecord, signal: AbortSignal): Promise<void> {
    const { deps } = this.#context;
    const data: StartIntent = { project: record.project, name: record.name };
    const intent = await deps.intents.begin(INTENTS.start, data);
    await using undo = new UndoStack((error) =>
      deps.log.error('Undoing a start failed', { instance: record.name, error }),
    );
    undo.add(() => deps.intents.end(intent));
    const settled = this.#settle(record);
    const effective = this.#context.expand(settled);
    const root = this.#context.rootVolume(settled, effective);
    undo.add(() => this.#context.roots.letGo(root));
    const [mounted, prepared] = await bothOrFail(
      this.#context.roots.hold(root).then(async (mount) => {
        await this.#applyTemplates(settled, effective, mount);
        return mount;
      }),
      this.#prepareDevices(settled, effective, undo),
      mkdir(deps.paths.logs(instanceKey(record.project, record.name)), { recursive: true, mode: 0o700 }),
    );
    const spec = await this.#spec(settled, effective, mounted, prepared);
    const ref = this.#context.ref(record);
    undo.add(() => deps.driver.kill(ref));
    await deps.driver.start(spec, signal);
    this.#context.statusChanged();
    await this.#store(settled, { ...prepared.volatile, 'volatile.last_state.power': 'RUNNING' });
    undo.commit();
    await deps.intents.end(intent);
  }

  /** Frees what a guest that ended had: its mounts, nics and volumes. Idempotent. */
  async cleanUp(record: InstanceRecord): Promise<void> {
    const { deps } = this.#context;
    const effective = this.#context.expand(record);
    this.#pins.release(instanceKey(record.project, record.name));
    for (const [name, device] of startOrder(effective.devices).toReversed()) {
      await this.devices.release(record, name, device).catch((error: unknown) => {
        deps.log.warn('A device was not released', { instance: record.name, device: name, error });
      });
    }
    await this.#context.roots.letGo(this.#context.rootVolume(record, effective));
  }

  /** After `cleanUp`: the record no longer names host interfaces, and says what the guest shall do at the next boot. */
  async markStopped(record: InstanceRecord, power: 'RUNNING' | 'STOPPED' = 'STOPPED'): Promise<void> {
    await this.#context.deps.collections.instances.update(idOf(record.project, record.name), (current) => {
      const config: Record<string, string> = { ...current.config, 'volatile.last_state.power': power };
      for (const key of Object.keys(config)) {
        if (/^volatile\..+\.host_name$/.test(key)) delete config[key];
      }
      return { ...current, config };
    });
    this.#context.statusChanged();
  }

  /** Limits for a guest that runs, with CPUs chosen anew where `limits.cpu` changed. */
  async limits(record: InstanceRecord, effective: Effective): Promise<LimitsSpec> {
    const { deps } = this.#context;
    const key = instanceKey(record.project, record.name);
    const limits = planLimits({
      config: effective.config,
      host: deps.capacity,
      cpuLoad: this.#pins.load(key),
      currentCpus: this.#pins.of(key),
      disks: await this.devices.diskLimits(record, effective.devices),
    });
    this.#pins.set(key, limits.cpus);
    return limits;
  }

  #settle(record: InstanceRecord): InstanceRecord {
    const effective = this.#context.expand(record);
    const config = settleNics(record.config, {}, effective.devices, this.#context.deps.entropy);
    const range = this.#context.idRange(record, effective.config);
    const map = idMapText(range);
    const keys = {
      'volatile.idmap.base': this.#context.idMapKeys(effective.config, range),
      'volatile.idmap.current': map,
      'volatile.idmap.next': map,
      // Files carry guest ids, which mounts map: another server that takes over the record must not take them for mapped.
      'volatile.last_state.idmap': idMapText(undefined),
    };
    return { ...record, config: { ...config, ...keys } };
  }

  async #prepareDevices(record: InstanceRecord, effective: Effective, undo: UndoStack): Promise<Prepared> {
    const result: Prepared = { nics: [], mounts: [], unixDevices: [], volatile: {} };
    for (const [name, device] of startOrder(effective.devices)) {
      const prepared = await this.devices.prepare(record, name, device, undo);
      if (prepared.type === 'nic') {
        result.nics.push(prepared.spec);
        for (const [key, value] of Object.entries(prepared.volatile))
          result.volatile[`volatile.${name}.${key}`] = value;
      } else if (prepared.type === 'mount') result.mounts.push(prepared.spec);
      else if (prepared.type === 'unix') result.unixDevices.push(prepared.spec);
    }
    return result;
  }

  async #applyTemplates(record: InstanceRecord, effective: Effective, mount: RootMount): Promise<void> {
    const { deps } = this.#context;
    const known = deps.collections.metadata.get(idOf(record.project, record.name))?.value;
    const entries = templateEntries(known?.metadata ?? {});
    if (known === undefined || Object.keys(entries).length === 0) return;
    const about = {
      ...record,
      config: effective.config,
      devices: effective.devices,
      privileged: isTrue(effective.config['security.privileged']),
    };
    const pending = record.config['volatile.apply_template'];
    const triggers: TemplateTrigger[] = pending === 'create' || pending === 'copy' ? [pending, 'start'] : ['start'];
    const tree = {
      path: mount.path,
      shift: mount.ids === 'shifted' ? this.#context.idRange(record, effective.config) : undefined,
    };
    for (const trigger of triggers) {
      const files = failing(() => planTemplates(entries, known.templates, trigger, about));
      for (const { path, content, createOnly } of files) await deps.files.put(tree, path, content, { createOnly });
    }
  }

  async #spec(record: InstanceRecord, effective: Effective, mount: RootMount, prepared: Prepared): Promise<StartSpec> {
    const { config, devices } = effective;
    const root = Object.values(devices).find(isRootDisk);
    return {
      ...this.#context.ref(record),
      rootfs: { path: mount.path, ids: mount.ids, readOnly: isTrue(root?.['readonly']) },
      idRange: this.#context.idRange(record, config),
      hostname: record.name,
      architecture: record.architecture,
      environment: withPrefix(config, 'environment.'),
      nics: prepared.nics,
      mounts: prepared.mounts,
      unixDevices: prepared.unixDevices,
      limits: await this.limits(record, effective),
      nesting: isTrue(config['security.nesting']),
      privileged: isTrue(config['security.privileged']),
      security: withPrefix(config, 'security.'),
      rawLxc: config['raw.lxc'] ?? '',
      logDir: this.#context.deps.paths.logs(instanceKey(record.project, record.name)),
    };
  }

  /** Takes the settled volatile keys over into the record as it is now. */
  async #store(settled: InstanceRecord, volatile: Readonly<Record<string, string>>): Promise<void> {
    const lastUsedAt = this.#context.timestamp();
    await this.#context.deps.collections.instances.update(idOf(settled.project, settled.name), (current) => {
      const config: Record<string, string> = {
        ...current.config,
        ...withKeys(settled.config, 'volatile.'),
        ...volatile,
      };
      delete config['volatile.apply_template'];
      return { ...current, config, lastUsedAt };
    });
  }
}

/** Entries whose key starts with `prefix`, without it. */
function withPrefix(config: Readonly<Record<string, string>>, prefix: string): Record<string, string> {
  const entries = Object.entries(withKeys(config, prefix));
  return Object.fromEntries(entries.map(([key, value]) => [key.slice(prefix.length), value]));
}

function withKeys(config: Readonly<Record<string, string>>, prefix: string): Record<string, string> {
  return Object.fromEntries(Object.entries(config).filter(([key]) => key.startsWith(prefix)));
}

function failing<T>(render: () => T): T {
  try {
    return render();
  } catch (error) {
    throw errors.badRequest(
      `Failed to render a template of the instance: ${error instanceof Error ? error.message : String(error)}`,
      error,
    );
  }
}

/** Waits for all even when one fails, so that nothing goes on behind an undo. */
async function bothOrFail<A, B>(a: Promise<A>, b: Promise<B>, rest: Promise<unknown>): Promise<[A, B]> {
  const [first, second, third] = await Promise.allSettled([a, b, rest]);
  if (first.status === 'rejected') throw first.reason;
  if (second.status === 'rejected') throw second.reason;
  if (third.status === 'rejected') throw third.reason;
  return [first.value, second.value];
}
