import type { Clock } from '../core/clock.ts';
import { FolderGate } from '../core/folder-gate.ts';
import type { Ids } from '../core/ids.ts';
import type { Log } from '../core/log.ts';
import { StatePaths } from '../core/paths.ts';
import type { EventService } from '../services/events/event-service.ts';
import { IntentService } from '../services/intents/intent-service.ts';
import { OperationService } from '../services/operations/operation-service.ts';
import type { Ledger } from '../state/collection.ts';
import { createLedger } from '../state/ledger.ts';
import type { Store } from '../state/store.ts';
import { openRecords, type Records } from './records.ts';

/** What every vertical stands on. */
export interface Foundations {
  readonly paths: StatePaths;
  readonly log: Log;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly ledger: Ledger;
  readonly records: Records;
  readonly events: EventService;
  readonly intents: IntentService;
  readonly operations: OperationService;
  /** For who reads or writes these folders, which may be moved to another place. */
  readonly gates: { readonly backups: FolderGate; readonly images: FolderGate };
}

export interface FoundationOptions {
  readonly stateDir: string;
  readonly store: Store;
  readonly events: EventService;
  readonly log: Log;
  readonly clock: Clock;
  readonly ids: Ids;
}

/** Opens the state and what runs on it; `stack` disposes it in reverse. */
export async function openFoundations(options: FoundationOptions, stack: AsyncDisposableStack): Promise<Foundations> {
  const { log, clock, ids, events } = options;
  const ledger = stack.use(await createLedger(options.store, { log }));
  const operations = stack.use(new OperationService({ events, clock, ids, log }));
  const intents = new IntentService({ ledger, clock, ids, log });
  const paths = new StatePaths(options.stateDir);
  const gates = { backups: new FolderGate(), images: new FolderGate() };
  return { gates, paths, log, clock, ids, ledger, records: openRecords(ledger), events, intents, operations };
}
