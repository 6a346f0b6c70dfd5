import stringWidth from 'string-width';
import { stringify } from 'yaml';

export type Format = 'table' | 'json' | 'yaml' | 'csv' | 'compact';

export const FORMATS: readonly Format[] = ['table', 'json', 'yaml', 'csv', 'compact'];

/** One column of a list: heading and the text of a record. */
export interface Column<T> {
  readonly title: string;
  text(record: T): string;
}

/** A list of records in the wanted form; `json` and `yaml` print the records themselves. */
export function formatList<T>(format: Format, columns: readonly Column<T>[], records: readonly T[]): string {
  if (format === 'json') return `${JSON.stringify(records)}\n`;
  if (format === 'yaml') return stringify(records);
  const rows = records.map((record) => columns.map((column) => column.text(record)));
  if (format === 'csv') return rows.map((row) => `${row.map(csvCell).join(',')}\n`).join('');
  const titles = columns.map(({ title }) => printable(title));
  const shown = rows.map((row) => row.map(printable));
  return format === 'compact' ? compact(titles, shown) : table(titles, shown);
}

/** Names and texts may come from a guest: what could steer the terminal is shown as a question mark. */
function printable(text: string): string {
  return text.replaceAll(/[^\P{Cc}\n]/gu, '?');
}

/** A cell as RFC 4180 has it: quoted when it must be. */
function csvCell(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function widths(titles: readonly string[], rows: readonly (readonly string[])[]): number[] {
  return titles.map((title, index) =>
    Math.max(
      stringWidth(title),
      ...rows.map((row) => Math.max(...(row[index] ?? '').split('\n').map((line) => stringWidth(line)))),
    ),
  );
}

function pad(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - stringWidth(text)));
}

/** Cells may hold several lines. */
function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const sizes = widths(titles, rows);
  const rule = `+${sizes.map((size) => '-'.repeat(size + 2)).join('+')}+\n`;
  const line = (cells: readonly string[]): string =>
    `|${cells.map((cell, index) => ` ${pad(cell, sizes[index] ?? 0)} `).join('|')}|\n`;
  const block = (cells: readonly string[]): string => {
    const parts = cells.map((cell) => cell.split('\n'));
    const height = Math.max(...parts.map((part) => part.length));
    return Array.from({ length: height }, (_, row) => line(parts.map((part) => part[row] ?? ''))).join('');
  };
  return `${rule}${line(titles)}${rule}${rows.map((row) => block(row) + rule).join('')}`;
}

function compact(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const flat = rows.map((row) => row.map((cell) => cell.replaceAll('\n', ' ')));
  const sizes = widths(titles, flat);
  return [titles, ...flat]
    .map(
      (row) =>
        `${row
          .map((cell, index) => pad(cell, sizes[index] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

/** Bytes with a binary unit, for people: `1.50GiB`. */
export function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let [value, unit] = [count, 0];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return unit === 0 ? `${value}B` : `${value.toFixed(2)}${units[unit]}`;
}

/** A point in time for people; empty for LXD's "never". */
export function when(timestamp: string): string {
  const date = new Date(timestamp);
  if (Number.isNaN(date.getTime()) || date.getUTCFullYear() <= 1970) return '';
  return date
    .toISOString()
    .replace('T', ' ')
    .replace(/\.\d+Z$/, ' UTC');
}
