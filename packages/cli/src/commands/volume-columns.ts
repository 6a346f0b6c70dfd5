import type { StorageVolume as StorageVolumeRecord } from '@keelson/api';
import { UsageError } from '../command.ts';
import { bytes, type Column, when } from '../output/format.ts';

/** A volume or a snapshot as lists show it, with its use when a column asks for that. */
export interface ListedVolume extends StorageVolumeRecord {
  readonly used: number | undefined;
}

/** Columns of `storage volume list` by letter; the letters are those that lxc has. */
const COLUMNS: Readonly<Record<string, Column<ListedVolume>>> = {
  t: { title: 'TYPE', text: ({ type, name }) => (name.includes('/') ? `${type} (snapshot)` : type) },
  n: { title: 'NAME', text: ({ name }) => name },
  d: { title: 'DESCRIPTION', text: ({ description }) => description },
  c: { title: 'CONTENT-TYPE', text: ({ content_type: content }) => content },
  u: { title: 'USED BY', text: ({ used_by: users }) => String(users?.length ?? 0) },
  U: { title: 'USAGE', text: ({ used }) => (used === undefined ? '' : bytes(used)) },
  e: { title: 'PROJECT', text: ({ project }) => project },
  C: { title: 'CREATED AT', text: ({ created_at: created }) => when(created) },
  L: { title: 'LOCATION', text: ({ location }) => location },
};

export const DEFAULT_COLUMNS = 'tndcu';

/** What each letter shows, for the help. */
export const COLUMN_HELP = Object.entries(COLUMNS)
  .map(([letter, { title }]) => `${letter} ${title.toLowerCase()}`)
  .join(', ');

/** Columns of `tnu,user.owner`: parts with a dot are settings, others are letters. @throws UsageError */
export function columnsOf(text: string): Column<ListedVolume>[] {
  return text.split(',').flatMap((part) => {
    if (part.includes('.'))
      return [{ title: part.toUpperCase(), text: ({ config }: ListedVolume) => config[part] ?? '' }];
    return Array.from(part).map((letter) => {
      const column = Object.hasOwn(COLUMNS, letter) ? COLUMNS[letter] : undefined;
      if (column === undefined) throw new UsageError(`There is no column "${letter}"; there are ${COLUMN_HELP}`);
      return column;
    });
  });
}

/** Tells the volumes that every word holds for: `key=value` compares a field or a setting, other words are parts of names. */
export function volumeMatcher(words: readonly string[]): (volume: StorageVolumeRecord) => boolean {
  return (volume) =>
    words.every((word) => {
      const at = word.indexOf('=');
      if (at <= 0) return volume.name.includes(word);
      const [key, wanted] = [word.slice(0, at), word.slice(at + 1)];
      const fields: Readonly<Record<string, string>> = {
        type: volume.type,
        name: volume.name,
        content_type: volume.content_type,
        description: volume.description,
        project: volume.project,
      };
      return (fields[key] ?? volume.config[key] ?? '') === wanted;
    });
}
