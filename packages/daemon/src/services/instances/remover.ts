import { rm } from 'node:fs/promises';
import { instanceKey } from '../../core/paths.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { Write } from '../../state/store.ts';
import { type InstanceContext, idOf } from './context.ts';
import { type CreateIntent, type DeleteIntent, INTENTS } from './intents.ts';
import type { RootVolume } from './ports.ts';

/** Takes instances away, completely; also what a crash left of one. */
export class InstanceRemover {
  readonly #context: InstanceContext;

  constructor(context: InstanceContext) {
    this.#context = context;
    const { intents } = context.deps;
    intents.handle<CreateIntent>(INTENTS.create, (intent) =>
      this.#undoCreate(intent.data).then(() => intents.end(intent)),
    );
    intents.handle<DeleteIntent>(INTENTS.delete, async (intent) => {
      await this.#removeEffects(intent.data, intent.data.root);
      await intents.end(intent, this.#recordWrites(intent.data));
    });
  }

  /** The instance must be stopped and locked. */
  async remove(record: InstanceRecord): Promise<void> {
    const { deps } = this.#context;
    const root = this.#context.rootVolume(record);
    const effective = this.#context.expand(record);
    const data: DeleteIntent = { project: record.project, name: record.name, root };
    const intent = await deps.intents.begin(INTENTS.delete, data);
    await this.#removeEffects(data, root);
    await deps.intents.end(intent, this.#recordWrites(data));
    await this.refreshReservations(effective.devices);
  }

  /** DHCP forgets or learns the nics of an instance. */
  async refreshReservations(devices: InstanceRecord['devices']): Promise<void> {
    const networks = new Set<string>();
    for (const device of Object.values(devices)) {
      if (device['type'] === 'nic' && device['network'] !== undefined) networks.add(device['network']);
    }
    for (const network of networks) {
      await this.#context.deps.networks.refreshReservations(network).catch((error: unknown) => {
        this.#context.deps.log.warn('DHCP reservations were not refreshed', { network, error });
      });
    }
  }

  async #undoCreate(data: CreateIntent): Promise<void> {
    // The record is written in the transaction that ends the intent: as the intent is still there, the record is not.
    await this.#removeEffects(data, data.root);
  }

  async #removeEffects(data: { readonly project: string; readonly name: string }, root: RootVolume): Promise<void> {
    const { deps } = this.#context;
    const key = instanceKey(data.project, data.name);
    await deps.storage.delete(root);
    await deps.driver.forget(this.#context.ref(data));
    await deps.archives.removeFolder(`${deps.paths.backups}/instances/${key}`);
    for (const folder of [deps.paths.logs(key), deps.paths.devices(key)]) {
      await rm(folder, { recursive: true, force: true });
    }
  }

  #recordWrites({ project, name }: { readonly project: string; readonly name: string }): Write[] {
    const { instances, snapshots, backups, metadata } = this.#context.deps.collections;
    const id = idOf(project, name);
    const below = <T>(collection: {
      list(prefix: string): readonly { readonly key: string; readonly value: T }[];
    }): T[] => collection.list(`${id}/`).map(({ value }) => value);
    return [
      instances.remove(id),
      metadata.remove(id),
      ...below(snapshots).flatMap(({ name: snapshot }) => [
        snapshots.remove(`${id}/${snapshot}`),
        metadata.remove(`${id}/${snapshot}`),
      ]),
      ...below(backups).map((backup) => backups.remove(`${id}/${backup.name}`)),
    ];
  }
}
