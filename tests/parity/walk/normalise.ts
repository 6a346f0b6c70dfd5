import type { Visited } from './runner.ts';

/** Removes from text what differs between two servers by nature: folders, times, ids, use. */
export function normaliser({ dir, folder }: Visited, fingerprint: string): (text: string) => string {
  const rules: readonly (readonly [RegExp | string, string])[] = [
    [folder, '<folder>'],
    [dir, '<dir>'],
    [fingerprint, '<fingerprint>'],
    [fingerprint.slice(0, 12), '<fingerprint>'],
    [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<uuid>'],
    [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g, '<time>'],
    [/\d{4}\/\d\d\/\d\d \d\d:\d\d( \w+)?/g, '<time>'],
  ];
  return (text) => rules.reduce((done, [from, to]) => done.replaceAll(from, to), text);
}
