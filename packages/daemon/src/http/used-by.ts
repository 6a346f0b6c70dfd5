import type { RecordList } from '../core/record-list.ts';
import { type Caller, isAdmin, mayUseProject } from '../services/certificates/caller.ts';

/** The record as this caller may see it: `used_by` names nothing in projects the caller may not use. */
export function hideForeignUsers<T extends object>(caller: Caller, record: T): T {
  if (isAdmin(caller) || !('used_by' in record) || !Array.isArray(record.used_by)) return record;
  const users: readonly unknown[] = record.used_by;
  return { ...record, used_by: users.filter((url) => mayUseProject(caller, projectOf(String(url)))) };
}

/** A storage pool as this caller may see it: without its settings, which name devices and accounts of the host. */
export function hidePool<T extends object>(caller: Caller, record: T): T {
  return isAdmin(caller) ? record : { ...hideForeignUsers(caller, record), config: {} };
}

/** A list of records, each as `hide` leaves it. */
export function hideIn(caller: Caller, list: RecordList, hide: typeof hideForeignUsers): RecordList {
  if (isAdmin(caller)) return list;
  const values = (): object[] => list.values().map((value) => hide(caller, value));
  return {
    version: `${caller.projects.join(',')}|${list.version}`,
    urls: () => list.urls(),
    json: () => values().map((value) => JSON.stringify(value)),
    values,
  };
}

function projectOf(url: string): string {
  const mark = url.indexOf('?');
  return (mark === -1 ? null : new URLSearchParams(url.slice(mark + 1)).get('project')) ?? 'default';
}
