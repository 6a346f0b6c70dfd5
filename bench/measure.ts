import { median, type Row } from './report.ts';
import type { BenchServer } from './servers.ts';

export interface Run {
  readonly servers: readonly BenchServer[];
  readonly rounds: number;
  note(text: string): void;
}

/** Values by row and server. */
export type Samples = Map<string, Map<string, number[]>>;

/** Adds a value to a row. */
export function record(samples: Samples, what: string, server: BenchServer, value: number): void {
  const byServer = samples.get(what) ?? new Map<string, number[]>();
  samples.set(what, byServer);
  byServer.set(server.name, [...(byServer.get(server.name) ?? []), value]);
}

/** Milliseconds. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** The medians. */
export function rows(
  section: string,
  samples: Samples,
  unit: Row['unit'],
  goals: Readonly<Record<string, Row['goal']>> = {},
): Row[] {
  return [...samples].map(([name, byServer]) => {
    const goal = goals[name];
    const values = Object.fromEntries([...byServer].map(([server, all]) => [server, median(all)]));
    return { section, name, unit, values, ...(goal === undefined ? {} : { goal }) };
  });
}

/** The body of an instance from the image. */
export const container = (server: BenchServer, name: string, pool: string): object => ({
  name,
  source: { type: 'image', fingerprint: server.fingerprint },
  devices: { root: { type: 'disk', path: '/', pool } },
});

export const start = { action: 'start', timeout: -1 };
export const kill = { action: 'stop', force: true, timeout: -1 };
