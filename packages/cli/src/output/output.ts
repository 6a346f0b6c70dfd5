import type { Operation } from '@keelson/api';
import type { CopyProgress } from '@keelson/client';
import { stringify } from 'yaml';
import { bytes, type Column, type Format, formatList } from './format.ts';

/** A stream that may be a terminal. */
export interface Terminal extends NodeJS.WritableStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** Where a command writes: results to stdout, progress and notes to stderr. */
export class Output {
  readonly format: Format;
  readonly #stdout: NodeJS.WritableStream;
  readonly #stderr: Terminal;
  readonly #quiet: boolean;
  #progress = '';

  constructor(options: { format: Format; quiet: boolean; stdout: NodeJS.WritableStream; stderr: Terminal }) {
    this.format = options.format;
    this.#stdout = options.stdout;
    this.#stderr = options.stderr;
    this.#quiet = options.quiet;
  }

  /** A list in the wanted format. */
  list<T>(columns: readonly Column<T>[], records: readonly T[]): void {
    this.text(formatList(this.format, columns, records));
  }

  /** One record: YAML unless JSON was asked for. */
  record(value: unknown): void {
    this.text(this.format === 'json' ? `${JSON.stringify(value)}\n` : stringify(value, { version: '1.1' }));
  }

  text(text: string): void {
    this.clearProgress();
    this.#stdout.write(text);
  }

  line(text: string): void {
    this.text(`${text}\n`);
  }

  /** Something worth knowing that is no result. */
  note(text: string): void {
    this.clearProgress();
    if (!this.#quiet) this.#stderr.write(`${text}\n`);
  }

  /** Overwrites one line on a terminal; silent elsewhere. */
  progress(text: string): void {
    if (this.#quiet || !this.#stderr.isTTY || text === this.#progress) return;
    this.#stderr.write(`\r\u001b[2K${text.slice(0, (this.#stderr.columns ?? 80) - 1)}`);
    this.#progress = text;
  }

  clearProgress(): void {
    if (this.#progress === '') return;
    this.#stderr.write('\r\u001b[2K');
    this.#progress = '';
  }

  /** Shows what an operation says of its progress, for example `Unpacking image: 45%`. */
  operation(label: string): (operation: Operation) => void {
    return (operation) => {
      const { text, bar } = progressOf(operation);
      this.progress(text === undefined ? `${label} …` : `${label}: ${bar}${text}`);
    };
  }

  /** As `operation`, for a copy with an operation at either end: what the receiving one says goes before. */
  copying(label: string): CopyProgress {
    const show = this.operation(label);
    let received = false;
    return (operation, side) => {
      if (progressOf(operation).text === undefined) return;
      received ||= side === 'target';
      if (side === 'target' || !received) show(operation);
    };
  }

  /** Shows how much of `total` bytes passed, which may be unknown. */
  bytes(label: string, total: number | undefined): (done: number) => void {
    return (done) => {
      const part = total === undefined || total === 0 ? undefined : Math.min(100, Math.floor((done * 100) / total));
      this.progress(`${label}: ${part === undefined ? bytes(done) : `${barOf({ percent: String(part) })}${part}%`}`);
    };
  }
}

/** The text of the stage an operation is at, and a bar where it knows how much is done. */
function progressOf({ metadata }: Operation): { readonly text: string | undefined; readonly bar: string } {
  const { progress, ...rest } = (metadata ?? {}) as Record<string, unknown>;
  const { stage } = (progress ?? {}) as { stage?: unknown };
  const texts = Object.entries(rest).filter(([key, value]) => key.endsWith('_progress') && typeof value === 'string');
  // Earlier stages keep their texts.
  const found = texts.find(([key]) => key === `${String(stage)}_progress`) ?? texts.at(-1);
  return { text: found === undefined ? undefined : String(found[1]), bar: barOf(progress) };
}

const BAR = 20;

/** How much is done as a bar, when the server knows. */
function barOf(progress: unknown): string {
  const { percent } = (progress ?? {}) as { percent?: unknown };
  if (typeof percent !== 'string' || !/^\d+$/.test(percent)) return '';
  const full = Math.min(BAR, Math.floor((Number(percent) * BAR) / 100));
  return `[${'#'.repeat(full)}${'-'.repeat(BAR - full)}] `;
}
