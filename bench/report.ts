/** One measured row: a median per server, and what counts as better. */
export interface Row {
  readonly section: string;
  readonly name: string;
  readonly unit: 'ms' | '/s' | 'MB' | 's';
  /** Median by server name. */
  readonly values: Readonly<Record<string, number>>;
  /** Ratio over LXD that is asked for, or a limit in the row's unit. */
  readonly goal?: { readonly ratio: number } | { readonly limit: number };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low, high] = [sorted[Math.ceil(middle) - 1] ?? Number.NaN, sorted[Math.floor(middle)] ?? Number.NaN];
  return (low + high) / 2;
}

/** The value that this part of all values (0 to 1) is below. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

/** How many times better than the peer; above 1 is better whatever the unit. */
export function ratioOf(row: Row, ours: string, peer: string): number | undefined {
  const [mine, theirs] = [row.values[ours], row.values[peer]];
  if (mine === undefined || theirs === undefined) return undefined;
  return row.unit === '/s' ? mine / theirs : theirs / mine;
}

/** Whether the row's goal is met; undefined without one. */
export function met(row: Row, ours: string, peer: string): boolean | undefined {
  if (row.goal === undefined) return undefined;
  if ('limit' in row.goal) return (row.values[ours] ?? Number.POSITIVE_INFINITY) <= row.goal.limit;
  return (ratioOf(row, ours, peer) ?? 0) >= row.goal.ratio;
}

/** The rows as a Markdown table. */
export function markdown(rows: readonly Row[], servers: readonly string[]): string {
  const [ours = '', peer = ''] = servers;
  const head = `| what | ${servers.join(' | ')} | ratio | goal | met |\n|---|${'---|'.repeat(servers.length + 3)}\n`;
  return head + rows.map((row) => line(row, servers, ours, peer)).join('');
}

function line(row: Row, servers: readonly string[], ours: string, peer: string): string {
  const cells = servers.map((server) => {
    const value = row.values[server];
    return value === undefined ? '' : `${value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${row.unit}`;
  });
  const ratio = ratioOf(row, ours, peer);
  const goal =
    row.goal === undefined ? '' : 'limit' in row.goal ? `≤ ${row.goal.limit} ${row.unit}` : `${row.goal.ratio}x`;
  const verdict = met(row, ours, peer);
  return `| ${row.name} | ${cells.join(' | ')} | ${ratio === undefined ? '' : `${ratio.toFixed(1)}x`} | ${goal} | ${verdict === undefined ? '' : verdict ? 'yes' : 'no'} |\n`;
}
