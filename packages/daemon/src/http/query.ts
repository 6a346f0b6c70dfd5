import { errors } from '../core/errors.ts';

export interface ParsedQuery {
  readonly all: Readonly<Record<string, string | undefined>>;
  readonly project: string;
  readonly allProjects: boolean;
  readonly recursion: 0 | 1 | 2;
  readonly filter: string;
}

const EMPTY: ParsedQuery = { all: {}, project: 'default', allProjects: false, recursion: 0, filter: '' };

/** Reads the part of a URL behind `?`; values that are not understood count as absent, as in LXD. */
export function parseQuery(search: string): ParsedQuery {
  if (search === '') return EMPTY;
  const all: Record<string, string> = Object.create(null);
  for (const [key, value] of new URLSearchParams(search)) all[key] ??= value;
  const allProjects = ['true', '1', 'yes', 'on'].includes(all['all-projects'] ?? '');
  if (allProjects && all['project'] !== undefined && all['project'] !== '') {
    throw errors.badRequest('Cannot specify a project when requesting all projects');
  }
  return {
    all,
    project: all['project'] === undefined || all['project'] === '' ? 'default' : all['project'],
    allProjects,
    recursion: recursionOf(all['recursion']),
    filter: all['filter'] ?? '',
  };
}

function recursionOf(value: string | undefined): 0 | 1 | 2 {
  const level = Number(value ?? 0);
  if (!Number.isInteger(level) || level <= 0) return 0;
  return level === 1 ? 1 : 2;
}
