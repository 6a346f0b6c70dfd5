import type { ValueType } from './value-type.ts';

const aliases: ReadonlySet<string> = new Set([
  '@hourly',
  '@daily',
  '@midnight',
  '@weekly',
  '@monthly',
  '@annually',
  '@yearly',
  '@startup',
  '@never',
]);
const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

interface Field {
  readonly minimum: number;
  readonly maximum: number;
  readonly names: readonly string[];
}

const fields: readonly Field[] = [
  { minimum: 0, maximum: 59, names: [] },
  { minimum: 0, maximum: 23, names: [] },
  { minimum: 1, maximum: 31, names: [] },
  { minimum: 1, maximum: 12, names: ['', ...months] },
  { minimum: 0, maximum: 6, names: days },
];

const form = 'Schedule must be of the form: <minute> <hour> <day-of-month> <month> <day-of-week>';

/** Parts of a schedule: cron expressions of five fields, and aliases such as `@daily`. Cron lists keep their commas. */
export function scheduleParts(text: string): readonly string[] {
  return text
    .split(/, /)
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

export const schedule: ValueType = {
  name: 'cron expression or aliases',
  check: (value) => {
    for (const part of scheduleParts(value)) {
      const problem = partProblem(part);
      if (problem !== undefined) {
        return problem;
      }
    }
    return undefined;
  },
};

function partProblem(part: string): string | undefined {
  if (aliases.has(part)) {
    return undefined;
  }
  const words = part.split(/\s+/);
  if (words.length !== fields.length || part.startsWith('@')) {
    return form;
  }
  for (const [index, word] of words.entries()) {
    const field = fields[index];
    const problem = field === undefined ? form : fieldProblem(word.toLowerCase(), field);
    if (problem !== undefined) {
      return `Error parsing schedule: ${problem}`;
    }
  }
  return undefined;
}

function fieldProblem(word: string, field: Field): string | undefined {
  for (const item of word.split(',')) {
    const match = /^(\*|\?|[a-z0-9]+)(?:-([a-z0-9]+))?(?:\/(\d+))?$/.exec(item);
    if (match === null || (match[2] !== undefined && /^[*?]$/.test(match[1] ?? ''))) {
      return `cannot read ${item}`;
    }
    const problem = rangeProblem(item, match[1] ?? '', match[2], field);
    if (problem !== undefined) {
      return problem;
    }
    if (match[3] !== undefined && Number(match[3]) === 0) {
      return `step of range should be a positive number: ${item}`;
    }
  }
  return undefined;
}

function rangeProblem(item: string, first: string, last: string | undefined, field: Field): string | undefined {
  if (first === '*' || first === '?') {
    return undefined;
  }
  const from = numberOf(first, field);
  const to = last === undefined ? from : numberOf(last, field);
  if (from === undefined || to === undefined) {
    return `failed to parse int from ${from === undefined ? first : last}`;
  }
  if (from < field.minimum) {
    return `beginning of range (${from}) below minimum (${field.minimum}): ${item}`;
  }
  if (to > field.maximum) {
    return `end of range (${to}) above maximum (${field.maximum}): ${item}`;
  }
  return from > to ? `beginning of range (${from}) beyond end of range (${to}): ${item}` : undefined;
}

function numberOf(word: string, field: Field): number | undefined {
  if (/^\d{1,4}$/.test(word)) {
    return Number(word);
  }
  const index = word === '' ? -1 : field.names.indexOf(word);
  return index === -1 ? undefined : index;
}
