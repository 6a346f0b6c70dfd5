import { errors } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type { InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import type { Write } from '../../state/store.ts';
import type { OperationContext } from '../operations/contract.ts';
import { type InstanceContext, idOf } from './context.ts';
import { progressOf } from './progress.ts';
import { INTENTS, type RefreshIntent } from './intents.ts';
import type { RootVolume } from './ports.ts';

/**
 * Brings an existing copy up to its source: root and snapshots become the source's, config stays. The new root is
 * made beside the old one and takes its place in one step; a crash leaves the old or the new.
 */
export class CopyRefresh {
  readonly #context: InstanceContext;

  constructor(context: InstanceContext) {
    this.#context = context;
    const { intents } = context.deps;
    intents.handle<RefreshIntent>(INTENTS.refresh, async ({ data, ...intent }) => {
      await this.#takePlace(data).catch(() => context.deps.storage.delete(data.temporary));
      await intents.end({ data, ...intent }, data.swapped ? data.writes : []);
    });
  }

  /** The target must be locked. @throws bad-request while it runs. */
  async refresh(
    source: RootVolume & { readonly snapshot?: string },
    snapshots: readonly InstanceSnapshotRecord[],
    target: InstanceRecord,
    operation: OperationContext,
  ): Promise<void> {
    await this.replace(target, async (temporary) => {
      await this.#context.deps.storage.copy(source, temporary, {
        snapshots: snapshots.map(({ name }) => name),
        size: undefined,
        ...progressOf(operation, instanceKey(source.project, source.instance)),
      });
      return { snapshots, writes: [] };
    });
  }

  /**
   * Gives `target`, which must be locked, the root that `make` makes beside it, and the snapshots that it tells. `writes`
   * make the records follow. @throws bad-request while it runs.
   */
  async replace(
    target: InstanceRecord,
    make: (
      temporary: RootVolume,
    ) => Promise<{ readonly snapshots: readonly InstanceSnapshotRecord[]; readonly writes: readonly Write[] }>,
  ): Promise<void> {
    const { deps } = this.#context;
    if (this.#context.isRunning(target)) throw errors.badRequest('Cannot refresh a running instance');
    const root = this.#context.rootVolume(target);
    const temporary = { ...root, instance: `keelson-refresh-${target.name}` };
    if (this.#context.find(target.project, temporary.instance) !== undefined) {
      throw errors.conflict(`The name "${temporary.instance}" is needed for the refresh, and an instance has it`);
    }
    const making: RefreshIntent = { root, temporary, writes: [], swapped: false };
    const first = await deps.intents.begin(INTENTS.refresh, making);
    let writes: readonly Write[] = [];
    {
      await using undo = new UndoStack((error) =>
        deps.log.error('Undoing a refresh failed', { instance: target.name, error }),
      );
      undo.add(() => deps.intents.end(first));
      undo.add(() => deps.storage.delete(temporary));
      const made = await make(temporary);
      writes = [...this.#writes(target, made.snapshots), ...made.writes];
      undo.commit();
    }
    const second = await deps.intents.begin(INTENTS.refresh, { ...making, writes, swapped: true });
    await deps.intents.end(first);
    await deps.storage.delete(root);
    await deps.storage.rename(temporary, root.instance);
    await deps.intents.end(second, writes);
  }

  /** After a crash: the old root goes only when the new one was complete. */
  async #takePlace({ root, temporary, swapped }: RefreshIntent): Promise<void> {
    const { storage } = this.#context.deps;
    if (!swapped) {
      await storage.delete(temporary);
      return;
    }
    // Where the rename had happened already the temporary one is gone and this one must stay.
    const usage = await storage.mount(temporary).then(
      () => storage.unmount(temporary).then(() => true),
      () => false,
    );
    if (!usage) return;
    await storage.delete(root);
    await storage.rename(temporary, root.instance);
  }

  #writes(target: InstanceRecord, snapshots: readonly InstanceSnapshotRecord[]): Write[] {
    const { collections } = this.#context.deps;
    const id = idOf(target.project, target.name);
    const kept = new Set(snapshots.map(({ name }) => name));
    const gone = this.#context
      .snapshotsOf(target.project, target.name)
      .filter(({ value }) => !kept.has(value.name))
      .flatMap(({ value }) => [
        collections.snapshots.remove(`${id}/${value.name}`),
        collections.metadata.remove(`${id}/${value.name}`),
      ]);
    const made = snapshots.map((snapshot) =>
      collections.snapshots.put(`${id}/${snapshot.name}`, {
        ...snapshot,
        project: target.project,
        instance: target.name,
        pool: target.pool,
      }),
    );
    return [...gone, ...made];
  }
}
