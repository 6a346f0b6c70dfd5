import type { Operation } from '@keelson/api';
import { stringify } from 'yaml';
import { type Column, type Format, formatList } from './format.ts';

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
      const metadata = (operation.metadata ?? {}) as Record<string, unknown>;
      const found = Object.entries(metadata).find(
        ([key, value]) => key.endsWith('_progress') && typeof value === 'string',
      );
      const bar = barOf(metadata['progress']);
      this.progress(found === undefined ? `${label} …` : `${label}: ${bar}${String(found[1])}`);
    };
  }
}

const BAR = 20;

/** How much is done as a bar, when the server knows. */
function barOf(progress: unknown): string {
  const { percent } = (progress ?? {}) as { percent?: unknown };
  if (typeof percent !== 'string' || !/^\d+$/.test(percent)) return '';
  const full = Math.min(BAR, Math.floor((Number(percent) * BAR) / 100));
  return `[${'#'.repeat(full)}${'-'.repeat(BAR - full)}] `;
}
