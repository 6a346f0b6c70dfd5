import type { InstanceFull } from '@keelson/api';
import { UsageError } from '../command.ts';
import { bytes, type Column, when } from './format.ts';

type Letters = Readonly<Record<string, Column<InstanceFull>>>;

/** Columns of `list` by letter; the letters are those that lxc has. */
const COLUMNS: Letters = {
  n: { title: 'NAME', text: ({ name }) => name },
  s: { title: 'STATE', text: ({ status }) => status.toUpperCase() },
  4: { title: 'IPV4', text: (instance) => addresses(instance, 'inet') },
  6: { title: 'IPV6', text: (instance) => addresses(instance, 'inet6') },
  t: { title: 'TYPE', text: ({ type, ephemeral }) => `${type.toUpperCase()}${ephemeral ? ' (EPHEMERAL)' : ''}` },
  S: { title: 'SNAPSHOTS', text: ({ snapshots }) => String(snapshots?.length ?? 0) },
  a: { title: 'ARCHITECTURE', text: ({ architecture }) => architecture ?? '' },
  b: { title: 'STORAGE POOL', text: ({ expanded_devices }) => rootPool(expanded_devices ?? {}) },
  c: { title: 'CREATED AT', text: ({ created_at }) => when(created_at ?? '') },
  d: { title: 'DESCRIPTION', text: ({ description }) => description ?? '' },
  D: { title: 'DISK USAGE', text: ({ state }) => usage(state?.disk?.['root']?.usage) },
  l: { title: 'LAST USED AT', text: ({ last_used_at }) => when(last_used_at ?? '') },
  L: { title: 'LOCATION', text: ({ location }) => location ?? '' },
  m: { title: 'MEMORY USAGE', text: ({ state }) => usage(state?.memory?.usage) },
  N: { title: 'PROCESSES', text: ({ state }) => String(state?.processes ?? 0) },
  p: { title: 'PID', text: ({ state }) => (state?.pid ? String(state.pid) : '') },
  P: { title: 'PROFILES', text: ({ profiles }) => (profiles ?? []).join('\n') },
  u: { title: 'CPU USAGE', text: ({ state }) => (state?.cpu?.usage ? `${Math.round(state.cpu.usage / 1e9)}s` : '') },
  e: { title: 'PROJECT', text: ({ project }) => project ?? '' },
};

export const DEFAULT_COLUMNS = 'ns46tS';

/** What each letter shows, for the help. */
export const COLUMN_HELP = Object.entries(COLUMNS)
  .map(([letter, { title }]) => `${letter} ${title.toLowerCase()}`)
  .join(', ');

/** Columns of `ns4,user.owner`: parts with a dot are settings, others are letters. @throws UsageError */
export function columnsOf(text: string): Column<InstanceFull>[] {
  return text.split(',').flatMap((part) => {
    if (part.includes('.')) return [settingColumn(part)];
    return Array.from(part).map((letter) => {
      const column = Object.hasOwn(COLUMNS, letter) ? COLUMNS[letter] : undefined;
      if (column === undefined) throw new UsageError(`There is no column "${letter}"; there are ${COLUMN_HELP}`);
      return column;
    });
  });
}

function settingColumn(key: string): Column<InstanceFull> {
  return {
    title: key.toUpperCase(),
    text: ({ expanded_config, config }) => expanded_config?.[key] ?? config?.[key] ?? '',
  };
}

/** Global addresses with the interface they are on, one a line. */
function addresses({ state }: InstanceFull, family: string): string {
  return Object.entries(state?.network ?? {})
    .filter(([name]) => name !== 'lo')
    .flatMap(([name, { addresses: found }]) =>
      (found ?? [])
        .filter((one) => one.family === family && one.scope === 'global')
        .map(({ address }) => `${address} (${name})`),
    )
    .join('\n');
}

function rootPool(devices: Readonly<Record<string, Readonly<Record<string, string>>>>): string {
  return Object.values(devices).find(({ type, path }) => type === 'disk' && path === '/')?.['pool'] ?? '';
}

function usage(count: number | undefined): string {
  return count === undefined || count <= 0 ? '' : bytes(count);
}
