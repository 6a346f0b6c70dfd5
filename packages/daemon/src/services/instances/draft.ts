import type { InstancePut } from '@keelson/api';
import { errors, isKeelsonError } from '../../core/errors.ts';
import { setDevices, setValues } from '../../core/set-values.ts';
import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import type { InstanceRecord, InstanceType } from '../../state/records/instance.ts';
import { type InstanceContext, NEVER_USED } from './context.ts';
import { RootDiskError, rootDisk } from './plan/expand.ts';
import { idMapText } from './plan/idmap.ts';
import { checkPaths, rootSize } from './rules.ts';
import { settleNics } from './plan/volatile.ts';

/** A new instance before its root exists. */
export interface Draft {
  readonly record: InstanceRecord;
  readonly metadata: InstanceMetadataRecord;
  /** Bytes of the root disk; undefined without a limit. */
  readonly size: number | undefined;
}

export interface DraftRequest {
  readonly project: string;
  readonly name: string;
  readonly type: InstanceType;
  readonly body: InstancePut;
  readonly architecture: string;
  /** Config the source brings; the body's wins. */
  readonly sourceConfig?: Readonly<Record<string, string>>;
  readonly sourceDevices?: InstanceRecord['devices'];
  readonly sourceProfiles?: readonly string[];
  readonly metadata?: InstanceMetadataRecord;
  readonly template: 'create' | 'copy' | undefined;
}

const NO_METADATA: InstanceMetadataRecord = { metadata: {}, templates: {} };
export const RECORD_FAILURE = 'Failed creating instance record: ';

/** Checks everything about a new instance and settles its record. @throws bad-request with LXD's text. */
export function draftInstance(context: InstanceContext, request: DraftRequest): Draft {
  const { project, name, type, body } = request;
  const { deps } = context;
  const profiles = body.profiles ?? request.sourceProfiles ?? ['default'];
  if (new Set(profiles).size !== profiles.length)
    throw errors.badRequest(`${RECORD_FAILURE}Duplicate profile found in request`);
  const devices = setDevices({ ...request.sourceDevices, ...body.devices });
  const config = setValues({ ...request.sourceConfig, ...body.config });
  const base = {
    project,
    name,
    type,
    architecture: request.architecture,
    description: body.description ?? '',
    ephemeral: body.ephemeral ?? false,
    stateful: body.stateful ?? false,
    profiles,
    createdAt: context.timestamp(),
    lastUsedAt: NEVER_USED,
  };
  const effective = context.expand({ project, profiles, config, devices });
  prefixed(RECORD_FAILURE, () => {
    context.rules.checkConfig(config);
    context.rules.checkDeviceTypes(devices);
  });
  const root = prefixed(`${RECORD_FAILURE}Failed initialising instance: `, () => {
    const found = prefixed('Failed getting root disk: ', () => rootDisk(effective.devices));
    checkPaths(devices);
    context.rules.checkDevices(project, effective.devices);
    return found;
  });
  const pool = root.config['pool'] ?? '';
  if (!deps.storage.poolExists(pool)) {
    throw errors.badRequest(
      `${RECORD_FAILURE}Failed initialising instance: Failed loading storage pool: Storage pool not found`,
    );
  }
  const draft: InstanceRecord = { ...base, config, devices, pool };
  deps.guard.checkInstance(draft);
  const range = context.idRange(draft, effective.config);
  const volatile = {
    ...(request.template === undefined ? {} : { 'volatile.apply_template': request.template }),
    // An instance that moves here stays the one it was.
    'volatile.cloud-init.instance-id': config['volatile.cloud-init.instance-id'] ?? deps.entropy.uuid(),
    'volatile.idmap.base': context.idMapKeys(effective.config, range),
    'volatile.idmap.next': idMapText(range),
    'volatile.last_state.idmap': config['volatile.last_state.idmap'] ?? '[]',
    'volatile.uuid': config['volatile.uuid'] ?? deps.entropy.uuid(),
  };
  return {
    record: { ...draft, config: settleNics({ ...config, ...volatile }, {}, effective.devices, deps.entropy) },
    metadata: request.metadata ?? NO_METADATA,
    size: rootSize(root.config),
  };
}

/** Runs `check`; what it throws becomes a bad-request whose text says where. */
export function prefixed<T>(prefix: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (isKeelsonError(error)) throw errors.badRequest(`${prefix}${error.message}`, error);
    if (error instanceof RootDiskError) throw errors.badRequest(`${prefix}${error.message}`, error);
    throw error;
  }
}
