import type { Visited } from './runner.ts';

/** Removes from text what differs between two servers by nature: folders, times, ids, how far something came. */
export function normaliser({ dir, folder }: Visited, fingerprint: string): (text: string) => string {
  const rules: readonly (readonly [RegExp | string, string])[] = [
    [folder, '<folder>'],
    [dir, '<dir>'],
    [fingerprint, '<fingerprint>'],
    [fingerprint.slice(0, 12), '<fingerprint>'],
    [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<uuid>'],
    [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g, '<time>'],
    [/\d{4}\/\d\d\/\d\d \d\d:\d\d( \w+)?/g, '<time>'],
    // Progress is written over on a terminal; what is left of it where an error ends it.
    [/[^\r\n]*\r/g, ''],
    [/^[A-Z][a-z]+ [a-z ]+: \d+% \([^)]*\)/g, ''],
  ];
  return (text) => rules.reduce((done, [from, to]) => done.replaceAll(from, to), plainTable(text));
}

/** A table is as wide as its widest cell, and cells hold folders: without rulers and padding. */
function plainTable(text: string): string {
  if (!/^\+-+\+|^ {2}[A-Z]/.test(text)) return text;
  return text
    .split('\n')
    .filter((line) => !/^\+[-+]+\+$/.test(line))
    .map((line) => line.replaceAll(/ {2,}/g, ' '))
    .join('\n');
}
