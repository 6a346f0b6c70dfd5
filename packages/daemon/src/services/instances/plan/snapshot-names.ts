/**
 * Next name after `pattern` (default `snap%d`): `%d` is the next free number, `{{ creation_date }}` the time, as
 * `{{ creation_date|date:"2006-01-02" }}` in Go's layout. Nothing else of LXD's template language is understood: what
 * is not becomes part of the name. A name that is taken gets a number.
 */
export function nextSnapshotName(pattern: string | undefined, existing: readonly string[], now: Date): string {
  const template = pattern === undefined || pattern === '' ? 'snap%d' : pattern;
  const dated = template.replace(
    /\{\{\s*creation_date\s*(?:\|\s*date:\s*["']([^"']*)["']\s*)?\}\}/g,
    (_, layout: string | undefined) => formatDate(layout ?? '2006-01-02_15-04-05', now),
  );
  const safe = dated.replace(/[\s/]/g, '-');
  if (!safe.includes('%d')) return existing.includes(safe) ? nextNumbered(`${safe}-%d`, existing) : safe;
  return nextNumbered(safe, existing);
}

function nextNumbered(pattern: string, existing: readonly string[]): string {
  const split = pattern.indexOf('%d');
  const head = pattern.slice(0, split);
  const tail = pattern.slice(split + 2);
  const numbers = existing
    .filter((name) => name.startsWith(head) && name.endsWith(tail) && name.length > head.length + tail.length)
    .map((name) => name.slice(head.length, name.length - tail.length))
    .filter((text) => /^\d+$/.test(text))
    .map(Number);
  const next = numbers.length === 0 ? 0 : Math.max(...numbers) + 1;
  return `${head}${next}${tail}`;
}

function formatDate(layout: string, date: Date): string {
  const pad = (value: number, length = 2): string => String(value).padStart(length, '0');
  const parts: Readonly<Record<string, string>> = {
    '2006': pad(date.getUTCFullYear(), 4),
    '01': pad(date.getUTCMonth() + 1),
    '02': pad(date.getUTCDate()),
    '15': pad(date.getUTCHours()),
    '04': pad(date.getUTCMinutes()),
    '05': pad(date.getUTCSeconds()),
    '06': pad(date.getUTCFullYear() % 100),
  };
  return layout.replace(/2006|01|02|15|04|05|06/g, (part) => parts[part] ?? part);
}
