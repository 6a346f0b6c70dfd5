import { errors, type KeelsonError } from '../core/errors.ts';
import { linearRegExp } from '../core/linear-regexp.ts';

type Matcher = (record: object) => boolean;

const MAX_LENGTH = 4096;
const MAX_CLAUSES = 32;

/**
 * LXD's filter: `[not] <field> eq|ne <value>` joined by `and` and `or`, read from left to right without
 * precedence. A field is a dotted path (`config.image.os` finds the key `image.os` too); a value is a regular
 * expression over the whole text, case ignored; quotes may surround it.
 * @throws bad-request saying what is wrong.
 */
export function compileFilter(filter: string): Matcher {
  if (filter.length > MAX_LENGTH) throw invalid(`longer than ${MAX_LENGTH} characters`);
  const tokens = tokenize(filter);
  if (tokens.length === 0) return () => true;
  const first = parseClause(tokens);
  const rest: { join: 'and' | 'or'; matches: Matcher }[] = [];
  while (tokens.length > 0) {
    const join = tokens.shift()?.toLowerCase();
    if (join !== 'and' && join !== 'or') throw invalid('invalid clause composition');
    if (rest.length + 1 >= MAX_CLAUSES) throw invalid(`more than ${MAX_CLAUSES} clauses`);
    rest.push({ join, matches: parseClause(tokens) });
  }
  return (record) =>
    rest.reduce(
      (sofar, { join, matches }) => (join === 'and' ? sofar && matches(record) : sofar || matches(record)),
      first(record),
    );
}

function parseClause(tokens: string[]): Matcher {
  let negated = false;
  while (tokens[0]?.toLowerCase() === 'not') {
    tokens.shift();
    negated = !negated;
  }
  const field = tokens.shift();
  if (field === undefined) throw invalid('clause is empty');
  const operator = tokens.shift()?.toLowerCase();
  if (operator === undefined) throw invalid('clause has no operator');
  const value = tokens.shift();
  if (value === undefined) throw invalid('clause has no value');
  if (operator !== 'eq' && operator !== 'ne') throw invalid(`unknown operator "${operator}"`);
  const equal = valueMatcher(value);
  const wanted = (operator === 'eq') !== negated;
  return (record) => equal(fieldOf(record, field)) === wanted;
}

function valueMatcher(value: string): (text: string | undefined) => boolean {
  const folded = value.toLowerCase();
  const pattern = linearRegExp(`^(?:${foldCase(value)})$`);
  return (text) => {
    if (text === undefined) return false;
    const lower = text.toLowerCase();
    return lower === folded || (pattern?.test(lower) ?? false);
  };
}

/** Lower case, but escapes such as `\D` stay what they are. */
function foldCase(pattern: string): string {
  return pattern.replace(/\\.|[A-Z]+/g, (part) => (part.startsWith('\\') ? part : part.toLowerCase()));
}

/** Text of a field; undefined when there is none or it is not a plain value. */
function fieldOf(record: object, field: string): string | undefined {
  const value = descend(record, field);
  return ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : undefined;
}

/** Keys of config maps hold dots themselves: at each level the whole rest is tried as one key first. */
function descend(value: unknown, path: string): unknown {
  if (value === null || typeof value !== 'object') return undefined;
  if (Object.hasOwn(value, path)) return (value as Readonly<Record<string, unknown>>)[path];
  for (let dot = path.indexOf('.'); dot !== -1; dot = path.indexOf('.', dot + 1)) {
    const head = path.slice(0, dot);
    if (!Object.hasOwn(value, head)) continue;
    return descend((value as Readonly<Record<string, unknown>>)[head], path.slice(dot + 1));
  }
  return undefined;
}

function tokenize(filter: string): string[] {
  const tokens: string[] = [];
  const token = /\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"]\S*))/y;
  const text = filter.trimEnd();
  while (token.lastIndex < text.length) {
    const match = token.exec(text);
    if (match === null) throw invalid('unterminated quote');
    tokens.push(match[1]?.replace(/\\(["\\])/g, '$1') ?? match[2] ?? '');
  }
  return tokens;
}

function invalid(why: string): KeelsonError {
  return errors.badRequest(`Invalid filter: ${why}`);
}
