import type { InstancesPost } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type { ImageRecord } from '../../state/records/image.ts';
import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import type { InstanceRecord, InstanceType } from '../../state/records/instance.ts';
import type { Write } from '../../state/store.ts';
import type { Migrations } from '../migration/migrations.ts';
import type { OperationContext, StartedOperation } from '../operations/contract.ts';
import { type By, type InstanceContext, idOf } from './context.ts';
import { CopyRefresh } from './copy-refresh.ts';
import { CopySource } from './copy-source.ts';
import { type Draft, draftInstance, RECORD_FAILURE } from './draft.ts';
import { type CreateIntent, INTENTS } from './intents.ts';
import { MigrationTarget } from './migration/target.ts';
import { missingSource } from './guest-devices.ts';
import { typeLimits } from './plan/instance-types.ts';
import { checkInstanceName, generateName } from './plan/names.ts';
import { progressOf } from './progress.ts';
import type { InstanceRemover } from './remover.ts';

/** What a root brought with it. */
export interface Filled {
  /** In place of the draft's. */
  readonly metadata?: InstanceMetadataRecord;
  /** Join the final transaction. */
  readonly writes?: readonly Write[];
}

/** How the root of a draft comes to be. */
export type Fill = (draft: Draft, operation: OperationContext) => Promise<Filled | void>;

/** Makes instances: from images, empty ones, and copies. */
export class InstanceCreator {
  readonly #context: InstanceContext;
  readonly #remover: InstanceRemover;
  readonly #copies: CopySource;
  readonly #arrivals: MigrationTarget;

  constructor(context: InstanceContext, remover: InstanceRemover, migrations: Migrations) {
    const refresher = new CopyRefresh(context);
    this.#context = context;
    this.#remover = remover;
    this.#copies = new CopySource(context, this, refresher);
    this.#arrivals = new MigrationTarget(context, this, { migrations, refresher });
  }

  /** `POST /1.0/instances`. @throws bad-request, not-found before an operation is made. */
  async create(project: string, wanted: InstancesPost, by: By = {}): Promise<StartedOperation> {
    const type = typeOf(wanted.type);
    const body = { ...wanted, config: { ...typeLimits(wanted.instance_type ?? ''), ...wanted.config } };
    const source = body.source ?? {};
    const name = this.#nameOf(project, body);
    this.#checkProfiles(project, body.profiles);
    const architecture = this.#architecture(body.architecture);
    const target = { project, name, type, body, architecture };
    switch (source.type) {
      case 'none':
        return this.start(target, by, async (operation) => {
          const draft = draftInstance(this.#context, { ...target, template: 'create' });
          const fill: Fill = async ({ record, size }) => {
            await this.#context.deps.storage.createFilled(this.#context.rootVolume(record), { size });
          };
          await this.make(draft, operation, by, { fill });
        });
      case 'image':
        return this.#fromImage(target, by);
      case 'copy':
        return this.#copies.start(target, source, by);
      case 'migration':
        if (source.mode !== 'pull' && source.mode !== 'push')
          throw errors.notImplemented(`Mode "${source.mode ?? ''}" not implemented`);
        return this.#arrivals.start(target, source, by);
      default:
        throw errors.badRequest(`Unknown source type ${source.type ?? ''}`);
    }
  }

  async #fromImage(target: Target, by: By): Promise<StartedOperation> {
    const { deps } = this.#context;
    const source: Record<string, unknown> = { ...target.body.source };
    if (source['alias'] === undefined && source['fingerprint'] === undefined && source['properties'] === undefined) {
      throw errors.badRequest('Must specify one of alias, fingerprint or properties for init from image');
    }
    const remote = typeof source['server'] === 'string' && source['server'] !== '';
    if (remote && by.mayFetch === false) throw errors.unauthorized('Only an administrator can have images downloaded');
    const resolve = (options: Parameters<typeof deps.images.resolve>[3]): Promise<ImageRecord> =>
      deps.images.resolve(target.project, source, target.type, options);
    const local = remote ? undefined : await resolve({});
    return this.start(target, by, async (operation) => {
      const image = local ?? (await resolve(progressOf(operation)));
      const found = await deps.images.templates(image);
      const draft = draftInstance(this.#context, {
        ...target,
        architecture:
          target.body.architecture === undefined || target.body.architecture === ''
            ? image.architecture
            : target.architecture,
        sourceConfig: imageConfig(image),
        sourceProfiles: image.profiles.length > 0 ? image.profiles : ['default'],
        metadata: { metadata: found.metadata, templates: Object.fromEntries(found.files) },
        template: 'create',
      });
      const fill: Fill = async ({ record, size }) => {
        await deps.storage.createFromImage(this.#context.rootVolume(record), image, { size, ...progressOf(operation) });
      };
      await this.make(draft, operation, by, { fill });
      void deps.images.touch(target.project, image.fingerprint).catch((error: unknown) => {
        deps.log.warn('The image was not marked as used', { fingerprint: image.fingerprint, error });
      });
    });
  }

  /** An operation that creates `target`. `sources` are further instances it is about: a copy, which can be cancelled. */
  start(
    target: Target,
    _by: By,
    run: (operation: OperationContext) => Promise<void>,
    sources: readonly string[] = [],
  ): StartedOperation {
    return this.#context.deps.operations.start({
      class: 'task',
      project: target.project,
      description: 'Creating instance',
      resources: this.#context.resources(target.project, target.name, ...sources),
      locks: [this.#context.lock(target)],
      mayCancel: sources.length > 0,
      run,
    });
  }

  /** Makes root and record of a draft: both or none, also across a crash. `writes` join the final transaction. */
  async make(
    draft: Draft,
    operation: OperationContext,
    by: By,
    { fill, writes = [] }: { readonly fill: Fill; readonly writes?: readonly Write[] },
  ): Promise<void> {
    const { deps } = this.#context;
    const { record } = draft;
    const id = idOf(record.project, record.name);
    const { instances, metadata } = deps.collections;
    if (instances.get(id) !== undefined)
      throw errors.badRequest(`${RECORD_FAILURE}This "instances" entry already exists`);
    const root = this.#context.rootVolume(record);
    const data: CreateIntent = { project: record.project, name: record.name, root };
    await this.#checkSources(record);
    const intent = await deps.intents.begin(INTENTS.create, data);
    await using undo = new UndoStack((error) => deps.log.error('Undoing a create failed', { instance: id, error }));
    undo.add(() => deps.intents.end(intent));
    undo.add(() => deps.storage.delete(root));
    const filled = await fill(draft, operation);
    operation.signal.throwIfAborted();
    await deps.intents.end(intent, [
      instances.put(id, record),
      metadata.put(id, filled?.metadata ?? draft.metadata),
      ...writes,
      ...(filled?.writes ?? []),
    ]);
    undo.commit();
    this.#context.lifecycle('instance-created', record, by, {
      context: { 'storage-pool': record.pool, type: record.type },
    });
    for (const { value } of this.#context.snapshotsOf(record.project, record.name))
      this.#context.lifecycle('instance-snapshot-created', record, by, {
        below: `/snapshots/${encodeURIComponent(value.name)}`,
      });
    await this.#remover.refreshReservations(this.#context.expand(record).devices);
  }

  async #checkSources(record: InstanceRecord): Promise<void> {
    const missing = await missingSource(this.#context.expand(record).devices);
    if (missing === undefined) return;
    throw errors.badRequest(`${RECORD_FAILURE}Failed initialising instance: ${missing}`);
  }

  #nameOf(project: string, body: InstancesPost): string {
    const name = body.name ?? '';
    if (name !== '') {
      checkInstanceName(name);
      return name;
    }
    if (body.source?.type === undefined || body.source.type === '') throw errors.badRequest('Unknown source type ');
    return generateName((candidate) => this.#context.find(project, candidate) !== undefined, this.#context.deps.random);
  }

  #checkProfiles(project: string, profiles: readonly string[] | undefined): void {
    const home = this.#context.profileProject(project);
    for (const name of profiles ?? []) {
      if (this.#context.deps.collections.profiles.get(idOf(home, name)) === undefined) {
        throw errors.badRequest(`Requested profile "${name}" doesn't exist`);
      }
    }
  }

  #architecture(wanted: string | undefined): string {
    if (wanted === undefined || wanted === '') return this.#context.deps.architecture;
    const personalities: Readonly<Record<string, readonly string[]>> = {
      x86_64: ['x86_64', 'i686'],
      aarch64: ['aarch64', 'armv7l'],
    };
    const host = this.#context.deps.architecture;
    if ((personalities[host] ?? [host]).includes(wanted)) return wanted;
    throw errors.badRequest(`Architecture isn't supported: ${wanted}`);
  }
}

/** The instance a request wants. */
export interface Target {
  readonly project: string;
  readonly name: string;
  readonly type: InstanceType;
  readonly body: InstancesPost;
  readonly architecture: string;
}

export type { InstanceMetadataRecord, InstanceRecord };

function typeOf(type: string | undefined): InstanceType {
  if (type === undefined || type === '' || type === 'container') return 'container';
  if (type !== 'virtual-machine') throw errors.badRequest('Invalid instance type');
  throw errors.badRequest('Instance type "virtual-machine" is not supported on this server');
}

/** Config an image gives its instances. */
function imageConfig(image: ImageRecord): Record<string, string> {
  const properties = Object.entries(image.properties).map(([key, value]) => [`image.${key}`, value] as const);
  return { ...Object.fromEntries(properties), 'volatile.base_image': image.fingerprint };
}
