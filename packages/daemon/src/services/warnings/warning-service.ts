import type { Warning, WarningPut } from '@keelson/api';
import { type Clock, timestamp } from '../../core/clock.ts';
import { errors, isKeelsonError, type KeelsonError } from '../../core/errors.ts';
import type { Ids } from '../../core/ids.ts';
import { KeyedQueue } from '../../core/keyed-queue.ts';
import type { RecordList } from '../../core/record-list.ts';
import type { Collection, Entry } from '../../state/collection.ts';
import type { WarningRecord } from '../../state/records/warning.ts';
import type { Events } from '../events/contract.ts';
import type { ChangeOptions } from '../profiles/contract.ts';
import type { Warnings, WarningSink, WarningSpec } from './contract.ts';

export interface WarningServiceOptions {
  readonly warnings: Collection<WarningRecord>;
  readonly events: Events;
  readonly clock: Clock;
  readonly ids: Ids;
  /** Name of this server in a cluster; `none` alone. */
  readonly location?: string;
}

type Identity = Pick<WarningSpec, 'type' | 'project' | 'entityUrl'>;

/** Trouble that an administrator should know of and no request is there to tell about. */
export class WarningService implements Warnings, WarningSink {
  readonly #options: WarningServiceOptions;
  readonly #records: Collection<WarningRecord>;
  /** Two that raise the same warning at once must not store it twice. */
  readonly #turns = new KeyedQueue();

  constructor(options: WarningServiceOptions) {
    this.#options = options;
    this.#records = options.warnings;
  }

  async raise(spec: WarningSpec): Promise<void> {
    const { type, severity, message, project = '', entityUrl = '' } = spec;
    const now = timestamp(this.#options.clock);
    await this.#turns.run({ exclusive: [keyOf(spec)] }, async () => {
      const known = this.#findSame(spec);
      if (known === undefined) {
        const uuid = this.#options.ids.uuid();
        const seen = { count: 1, firstSeenAt: now, lastSeenAt: now, lastMessage: message, status: 'new' } as const;
        const location = this.#options.location ?? 'none';
        await this.#records.create(uuid, { uuid, location, project, entityUrl, type, severity, ...seen });
        return;
      }
      await this.#update(known.uuid, (current) => ({
        ...current,
        severity,
        count: current.count + 1,
        lastMessage: message,
        lastSeenAt: now,
        status: current.status === 'resolved' ? 'new' : current.status,
      }));
    });
  }

  async resolve(warning: Identity): Promise<void> {
    await this.#turns.run({ exclusive: [keyOf(warning)] }, async () => {
      const known = this.#findSame(warning);
      if (known === undefined || known.status === 'resolved') return;
      await this.#update(known.uuid, (current) => ({ ...current, status: 'resolved' }));
    });
  }

  list(project: string | undefined): RecordList {
    const entries = (): readonly Entry<WarningRecord>[] =>
      this.#records.list().filter(({ value }) => project === undefined || value.project === project);
    return {
      version: `${this.#records.revision}:${project ?? '*'}`,
      urls: () => entries().map(({ value }) => urlOf(value.uuid)),
      json: () => entries().map(({ value }) => JSON.stringify(render(value))),
      values: () => entries().map(({ value }) => render(value)),
    };
  }

  get(uuid: string): { warning: Warning; etag: readonly unknown[] } {
    const record = this.#records.get(uuid)?.value;
    if (record === undefined) throw notFound();
    return { warning: render(record), etag: [record.status] };
  }

  async setStatus(uuid: string, { status }: WarningPut, options: ChangeOptions = {}): Promise<void> {
    if (status === 'resolved') throw errors.unauthorized('Status may only be set to "acknowledge" or "new"');
    if (status !== 'new' && status !== 'acknowledged') throw errors.badRequest(`Invalid warning type "${status}"`);
    await this.#update(uuid, (current) => {
      options.precondition?.([current.status]);
      return current.status === status ? current : { ...current, status };
    });
    this.#announce(status === 'new' ? 'warning-reset' : 'warning-acknowledged', uuid, options);
  }

  async delete(uuid: string, options: ChangeOptions = {}): Promise<void> {
    if (!(await this.#records.delete(uuid))) throw notFound();
    this.#announce('warning-deleted', uuid, options);
  }

  async #update(uuid: string, change: (current: WarningRecord) => WarningRecord): Promise<void> {
    try {
      await this.#records.update(uuid, change);
    } catch (error) {
      throw isKeelsonError(error, 'not-found') ? notFound() : error;
    }
  }

  #findSame(warning: Identity): WarningRecord | undefined {
    const key = keyOf(warning);
    return this.#records.list().find(({ value }) => keyOf(value) === key)?.value;
  }

  #announce(action: string, uuid: string, { requestor }: ChangeOptions): void {
    const event = { action, source: urlOf(uuid), ...(requestor === undefined ? {} : { requestor }) };
    this.#options.events.lifecycle('', event);
  }
}

function keyOf({ type, project = '', entityUrl = '' }: Identity): string {
  return JSON.stringify([type, project, entityUrl]);
}

function urlOf(uuid: string): string {
  return `/1.0/warnings/${encodeURIComponent(uuid)}`;
}

function notFound(): KeelsonError {
  return errors.notFound('Warning not found');
}

function render(record: WarningRecord): Warning {
  return {
    status: record.status,
    uuid: record.uuid,
    location: record.location,
    project: record.project,
    type: record.type,
    count: record.count,
    first_seen_at: record.firstSeenAt,
    last_seen_at: record.lastSeenAt,
    last_message: record.lastMessage,
    severity: record.severity,
    entity_url: record.entityUrl,
  };
}
