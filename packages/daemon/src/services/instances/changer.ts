import type { InstancePut } from '@keelson/api';
import { isTrue } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { Precondition } from '../../core/precondition.ts';
import { setDevices, setValues } from '../../core/set-values.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type { NicSpec } from '../../drivers/instance/contract.ts';
import type { InstanceRecord, InstanceType } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { StartedOperation } from '../operations/contract.ts';
import { type By, type InstanceContext, idOf } from './context.ts';
import { prefixed } from './draft.ts';
import { missingSource } from './guest-devices.ts';
import { type ChangePlan, keepProtected, type Effective, planChange } from './plan/changes.ts';
import { needsReplug } from './plan/devices.ts';
import { isRootDisk } from './plan/expand.ts';
import { idMapText } from './plan/idmap.ts';
import { deviceVolatile, settleNics } from './plan/volatile.ts';
import { etagSource } from './reader.ts';
import type { InstanceRemover } from './remover.ts';
import { checkPaths, rootSize } from './rules.ts';
import type { InstanceStarter } from './starter.ts';

export interface ChangeRequest extends By {
  readonly precondition?: Precondition | undefined;
  readonly type?: InstanceType | undefined;
}

/** Changes config, devices and profiles of instances, live where the guest runs. */
export class InstanceChanger {
  readonly #context: InstanceContext;
  readonly #starter: InstanceStarter;
  readonly #remover: InstanceRemover;

  constructor(context: InstanceContext, starter: InstanceStarter, remover: InstanceRemover) {
    this.#context = context;
    this.#starter = starter;
    this.#remover = remover;
  }

  /** `PUT /1.0/instances/<name>` without `restore`. @throws not-found, precondition-failed before an operation is made. */
  put(project: string, name: string, body: InstancePut, request: ChangeRequest = {}): StartedOperation {
    const record = this.#context.require(project, name, request.type);
    request.precondition?.(etagSource(record));
    this.#checkProfiles(project, body.profiles);
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Updating instance',
      resources: this.#context.resources(project, name),
      locks: [this.#context.lock(record)],
      run: () => this.#change(this.#context.require(project, name), (current) => replaced(current, body), request),
    });
  }

  /** `PATCH /1.0/instances/<name>`. */
  async patch(project: string, name: string, body: InstancePut, request: ChangeRequest = {}): Promise<void> {
    if ((body.restore ?? '') !== '') throw errors.badRequest("Can't call PATCH in restore mode");
    const record = this.#context.require(project, name, request.type);
    request.precondition?.(etagSource(record));
    this.#checkProfiles(project, body.profiles);
    await this.#context.deps.operations.exclusive([this.#context.lock(record)], () =>
      this.#change(this.#context.require(project, name), (current) => merged(current, body), request),
    );
  }

  #checkProfiles(project: string, profiles: readonly string[] | undefined): void {
    const home = this.#context.profileProject(project);
    for (const name of profiles ?? []) {
      if (this.#context.deps.collections.profiles.get(idOf(home, name)) === undefined)
        throw errors.notFound('Profile not found');
    }
  }

  async #change(
    record: InstanceRecord,
    change: (current: InstanceRecord) => InstanceRecord,
    request: ChangeRequest,
  ): Promise<void> {
    const changed = change(record);
    const wanted = { ...changed, config: keepProtected(record.config, changed.config) };
    const { rules } = this.#context;
    prefixed('Invalid config: ', () => rules.checkConfig(wanted.config, record.type));
    rules.checkDeviceTypes(wanted.devices);
    if (new Set(wanted.profiles).size !== wanted.profiles.length)
      throw errors.badRequest('Duplicate profile found in request');
    const before = this.#context.expand(record);
    const after = this.#context.expand(wanted);
    const plan = planChange(before, after);
    const touched = [...plan.devices.added, ...plan.devices.updated].map(
      (name) => [name, after.devices[name] ?? {}] as const,
    );
    const missing = await missingSource(Object.fromEntries(touched));
    if (missing !== undefined) throw errors.badRequest(missing);
    checkPaths(wanted.devices);
    rules.checkDevices(record.project, after.devices);
    this.#context.deps.guard.checkInstance(wanted);
    await this.#apply(this.#settle(wanted, before, after, plan), { before, after, plan });
    this.#context.lifecycle('instance-updated', record, request);
  }

  /** Volatile keys in step with devices and map. */
  #settle(wanted: InstanceRecord, before: Effective, after: Effective, plan: ChangePlan): InstanceRecord {
    const config = settleNics(wanted.config, before.devices, after.devices, this.#context.deps.entropy);
    if (!plan.idMap) return { ...wanted, config };
    const range = this.#context.idRange(wanted, after.config);
    return {
      ...wanted,
      config: {
        ...config,
        'volatile.idmap.base': this.#context.idMapKeys(after.config, range),
        'volatile.idmap.next': idMapText(range),
      },
    };
  }

  /** Host first, record last: a failure leaves both as they were. */
  async #apply(
    wanted: InstanceRecord,
    { before, after, plan }: { before: Effective; after: Effective; plan: ChangePlan },
  ): Promise<void> {
    const { deps } = this.#context;
    const id = idOf(wanted.project, wanted.name);
    const old = this.#context.require(wanted.project, wanted.name);
    await using undo = new UndoStack((error) => deps.log.error('Undoing a change failed', { instance: id, error }));
    if (plan.rootSize !== null) await this.#resize(wanted, before, after, undo);
    let volatile: Record<string, string | undefined> = {};
    if (this.#context.isRunning(wanted)) {
      volatile = await this.#applyLive({ old, wanted, before, after, plan }, undo);
    }
    await deps.collections.instances.update(id, (current) => ({
      ...wanted,
      profiles: sameList(current.profiles, old.profiles) ? wanted.profiles : current.profiles,
      config: withChanges(wanted.config, volatile),
      lastUsedAt: current.lastUsedAt,
    }));
    undo.commit();
    if ([...plan.devices.added, ...plan.devices.removed, ...plan.devices.updated].length > 0) {
      await this.#remover.refreshReservations({ ...before.devices, ...after.devices });
    }
  }

  async #resize(wanted: InstanceRecord, before: Effective, after: Effective, undo: UndoStack): Promise<void> {
    const { storage } = this.#context.deps;
    const root = this.#context.rootVolume(wanted, after);
    const sizeIn = (effective: Effective): number | undefined =>
      rootSize(Object.values(effective.devices).find(isRootDisk) ?? {});
    await storage.resize(root, sizeIn(after));
    undo.add(() => storage.resize(root, sizeIn(before)));
  }

  async #applyLive(
    {
      old,
      wanted,
      before,
      after,
      plan,
    }: { old: InstanceRecord; wanted: InstanceRecord; before: Effective; after: Effective; plan: ChangePlan },
    undo: UndoStack,
  ): Promise<Record<string, string | undefined>> {
    const { driver } = this.#context.deps;
    const ref = this.#context.ref(wanted);
    const volatile: Record<string, string | undefined> = {};
    const { removed, added, updated } = plan.devices;
    const changed = updated.filter((name) => needsReplug(before.devices[name] ?? {}, after.devices[name] ?? {}));
    for (const name of [...removed, ...changed]) {
      await this.#detach(old, name, before.devices[name] ?? {}, undo);
      volatile[`volatile.${name}.host_name`] = undefined;
    }
    for (const name of [...added, ...changed]) {
      const hostName = await this.#attach(wanted, name, after.devices[name] ?? {}, undo);
      if (hostName !== undefined) volatile[`volatile.${name}.host_name`] = hostName;
    }
    if (plan.limits) {
      const previous = await this.#starter.limits(old, before);
      undo.add(() => driver.updateLimits(ref, previous));
      await driver.updateLimits(ref, await this.#starter.limits(wanted, after));
    }
    return volatile;
  }

  /** Plugs a device into the running guest; the name of its host interface if it has one. */
  async #attach(
    record: InstanceRecord,
    name: string,
    device: Readonly<Record<string, string>>,
    undo: UndoStack,
  ): Promise<string | undefined> {
    const { driver } = this.#context.deps;
    const ref = this.#context.ref(record);
    const prepared = await this.#starter.devices.prepare(record, name, device, undo);
    if (prepared.type === 'nic') {
      await driver.attachNic(ref, prepared.spec);
      undo.add(() => driver.detachNic(ref, prepared.spec));
      return prepared.spec.hostName;
    }
    if (prepared.type === 'mount') {
      await driver.attachMount(ref, prepared.spec);
      undo.add(() => driver.detachMount(ref, prepared.spec));
    } else if (prepared.type === 'unix') {
      await driver.attachUnixDevice(ref, prepared.spec);
      undo.add(() => driver.detachUnixDevice(ref, prepared.spec));
    }
    return undefined;
  }

  async #detach(
    record: InstanceRecord,
    name: string,
    device: Readonly<Record<string, string>>,
    undo: UndoStack,
  ): Promise<void> {
    const { driver } = this.#context.deps;
    const ref = this.#context.ref(record);
    const scratch = new UndoStack();
    // What the device looked like is told again by preparing it, which is safe to repeat.
    const prepared = await this.#starter.devices.prepare(record, name, withHostName(record, name, device), scratch);
    if (prepared.type === 'nic') {
      const spec: NicSpec = prepared.spec;
      await driver.detachNic(ref, spec);
      undo.add(() => driver.attachNic(ref, spec));
    } else if (prepared.type === 'mount') {
      await driver.detachMount(ref, prepared.spec);
      undo.add(() => driver.attachMount(ref, prepared.spec));
    } else if (prepared.type === 'unix') {
      await driver.detachUnixDevice(ref, prepared.spec);
      undo.add(() => driver.attachUnixDevice(ref, prepared.spec));
    }
    await this.#starter.devices.release(record, name, device);
  }

  /** Brings running instances in line with a profile that changed; what one of them cannot take waits for its next start. */
  async profileChanged(before: ProfileRecord, after: ProfileRecord): Promise<void> {
    const users = this.#context.deps.collections.instances
      .list()
      .map(({ value }) => value)
      .filter(
        (record) =>
          record.profiles.includes(after.name) && this.#context.profileProject(record.project) === after.project,
      );
    for (const { project, name } of users) {
      await this.#context.deps.operations
        .exclusive([this.#context.lock({ project, name })], () => this.#followProfile(project, name, before, after))
        .catch((error: unknown) => {
          this.#context.deps.log.warn('A profile change was not applied to a running instance', {
            instance: name,
            profile: after.name,
            error,
          });
        });
    }
  }

  async #followProfile(project: string, name: string, before: ProfileRecord, after: ProfileRecord): Promise<void> {
    const record = this.#context.find(project, name);
    if (record === undefined) return;
    const expand = (profile: ProfileRecord): Effective => this.#context.expandWith(record, profile);
    const [old, wanted] = [expand(before), expand(after)];
    const plan = planChange(old, wanted);
    await this.#apply(this.#settle(record, old, wanted, plan), { before: old, after: wanted, plan });
  }
}

/** The guest's nic has the host name it got when it was plugged. */
function withHostName(
  record: InstanceRecord,
  name: string,
  device: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const hostName = deviceVolatile(record.config, name)['host_name'];
  return device['type'] === 'nic' && device['host_name'] === undefined && hostName !== undefined
    ? { ...device, host_name: hostName }
    : device;
}

function replaced(current: InstanceRecord, body: InstancePut): InstanceRecord {
  return {
    ...current,
    architecture:
      body.architecture === undefined || body.architecture === '' ? current.architecture : body.architecture,
    config: setValues(body.config ?? {}),
    description: body.description ?? '',
    devices: setDevices(body.devices ?? {}),
    ephemeral: body.ephemeral ?? false,
    profiles: body.profiles ?? ['default'],
  };
}

function merged(current: InstanceRecord, body: InstancePut): InstanceRecord {
  return {
    ...current,
    architecture:
      body.architecture === undefined || body.architecture === '' ? current.architecture : body.architecture,
    config: setValues({ ...current.config, ...body.config }),
    description: body.description ?? current.description,
    devices: setDevices({ ...current.devices, ...body.devices }),
    ephemeral: body.ephemeral ?? current.ephemeral,
    profiles: body.profiles ?? current.profiles,
  };
}

function withChanges(
  config: Readonly<Record<string, string>>,
  changes: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const result: Record<string, string> = { ...config };
  for (const [key, value] of Object.entries(changes)) {
    if (value === undefined) delete result[key];
    else result[key] = value;
  }
  return result;
}

function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((value, index) => value === b[index]);
}

/** @throws bad-request with LXD's text when the instance must not be deleted. */
export function checkDeletable(effective: Effective): void {
  if (isTrue(effective.config['security.protection.delete']))
    throw errors.badRequest('Instance is protected from being deleted');
}
