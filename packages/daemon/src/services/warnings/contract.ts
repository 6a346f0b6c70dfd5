import type { Warning, WarningPut } from '@keelson/api';
import type { RecordList } from '../../core/record-list.ts';
import type { WarningRecord } from '../../state/records/warning.ts';
import type { ChangeOptions } from '../profiles/contract.ts';

/** What is wrong, and with what. The same type, project and entity are one warning, however often it is raised. */
export interface WarningSpec {
  readonly type: string;
  readonly severity: WarningRecord['severity'];
  /** What happened this time. */
  readonly message: string;
  readonly project?: string;
  readonly entityUrl?: string;
}

/** What services raise warnings with. */
export interface WarningSink {
  /** Stores the warning, or counts it once more; a resolved one is new again. */
  raise(warning: WarningSpec): Promise<void>;
  /** The trouble is over. Without effect when there is no such warning. */
  resolve(warning: Pick<WarningSpec, 'type' | 'project' | 'entityUrl'>): Promise<void>;
}

/** Warnings as the API needs them. Every method throws not-found (`Warning not found`) for an unknown id. */
export interface Warnings {
  /** Of one project, or all. */
  list(project: string | undefined): RecordList;
  get(uuid: string): { readonly warning: Warning; readonly etag: readonly unknown[] };
  /** Acknowledges it or makes it new again. @throws unauthorized for `resolved`, bad-request for anything else. */
  setStatus(uuid: string, body: WarningPut, options?: ChangeOptions): Promise<void>;
  delete(uuid: string, options?: ChangeOptions): Promise<void>;
}
