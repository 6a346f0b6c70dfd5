/**
 * The part of LXD's template language that images use: `{{ expression }}` and `{% if %} … {% elif %} … {% else %} … {% endif %}`.
 * Expressions are texts, names with dots or brackets, `config_get(key, default)`, joined by `==` and `!=`.
 * Nothing in it can read or write a file.
 */
export interface TemplateValues {
  readonly container: Readonly<Record<string, string>>;
  readonly instance: Readonly<Record<string, string>>;
  readonly config: Readonly<Record<string, string>>;
  readonly devices: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly properties: Readonly<Record<string, string>>;
  readonly path: string;
  readonly trigger: string;
}

/** A template that cannot be understood; the message names the part. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError';
}

/** Value of an expression: a text, or a map on the way to one. */
type Value = string | { readonly [key: string]: Value };

interface Part {
  readonly kind: 'expression' | 'tag' | 'note';
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

const OPENERS: Readonly<Record<string, readonly [kind: Part['kind'], close: string]>> = {
  '{{': ['expression', '}}'],
  '{%': ['tag', '%}'],
  '{#': ['note', '#}'],
};

/** The parts between braces, in order. One pass: an opener that nothing closes makes the text no slower to read. */
function* partsOf(source: string): Generator<Part> {
  const unclosed = new Set<string>();
  let start = source.indexOf('{');
  while (start !== -1) {
    const opener = source.slice(start, start + 2);
    const [kind, close] = OPENERS[opener] ?? [];
    const at = kind === undefined || unclosed.has(opener) ? -1 : source.indexOf(close ?? '', start + 2);
    if (kind === undefined || at === -1) {
      unclosed.add(opener);
      start = source.indexOf('{', start + 1);
      continue;
    }
    yield { kind, text: source.slice(start + 2, at), start, end: at + 2 };
    start = source.indexOf('{', at + 2);
  }
}

interface Branch {
  /** Whether what stands around it is shown. */
  readonly outer: boolean;
  taken: boolean;
  shown: boolean;
}

/** @throws TemplateError */
export function renderTemplate(source: string, values: TemplateValues): string {
  const output: string[] = [];
  const branches: Branch[] = [];
  const shown = (): boolean => branches.at(-1)?.shown ?? true;
  let position = 0;
  for (const { kind, text, start, end } of partsOf(source)) {
    if (shown()) output.push(source.slice(position, start));
    position = end;
    if (kind === 'expression') {
      if (shown()) output.push(textOf(evaluate(text, values)));
    } else if (kind === 'tag') {
      applyTag(text.replace(/^-|-$/g, '').trim(), branches, shown(), values);
    }
  }
  if (branches.length > 0) throw new TemplateError('An "if" is not closed');
  output.push(source.slice(position));
  return output.join('');
}

function applyTag(tag: string, branches: Branch[], shown: boolean, values: TemplateValues): void {
  const [word = '', ...rest] = tag.split(/\s+/);
  const condition = rest.join(' ');
  if (word === 'if') {
    const holds = shown && isTruthy(evaluate(condition, values));
    branches.push({ outer: shown, taken: holds, shown: holds });
    return;
  }
  const branch = branches.at(-1);
  if (word === 'endif' && branch !== undefined) {
    branches.pop();
  } else if ((word === 'elif' || word === 'else') && branch !== undefined) {
    const holds = branch.outer && !branch.taken && (word === 'else' || isTruthy(evaluate(condition, values)));
    branch.shown = holds;
    branch.taken ||= holds;
  } else if (word !== 'autoescape' && word !== 'endautoescape') {
    throw new TemplateError(`Tag "${tag}" is not supported`);
  }
}

function isTruthy(value: Value): boolean {
  return typeof value === 'string' ? value !== '' && value !== 'false' : Object.keys(value).length > 0;
}

function textOf(value: Value): string {
  return typeof value === 'string' ? value : '';
}

const TOKEN = /\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([A-Za-z_]\w*)|(\d+)|(==|!=|[()[\],.|]))/y;

type Token = { readonly text: string; readonly kind: 'text' | 'name' | 'sign' };

function tokenize(source: string): Token[] {
  const tokens: Token[] = [];
  const trimmed = source.trim();
  let position = 0;
  const pattern = new RegExp(TOKEN.source, 'y');
  while (position < trimmed.length) {
    pattern.lastIndex = position;
    const match = pattern.exec(trimmed);
    if (match === null) throw new TemplateError(`Expression "${trimmed}" is not understood`);
    position = pattern.lastIndex;
    const quoted = match[1] ?? match[2];
    if (quoted !== undefined) tokens.push({ text: quoted.replace(/\\(.)/g, '$1'), kind: 'text' });
    else if (match[3] !== undefined) tokens.push({ text: match[3], kind: 'name' });
    else if (match[4] !== undefined) tokens.push({ text: match[4], kind: 'text' });
    else tokens.push({ text: match[5] ?? '', kind: 'sign' });
  }
  return tokens;
}

function evaluate(source: string, values: TemplateValues): Value {
  const parser = new Parser(tokenize(source), values, source);
  return parser.comparison();
}

class Parser {
  readonly #tokens: Token[];
  readonly #values: TemplateValues;
  readonly #source: string;

  constructor(tokens: Token[], values: TemplateValues, source: string) {
    this.#tokens = tokens;
    this.#values = values;
    this.#source = source.trim();
  }

  comparison(): Value {
    const left = this.#operand();
    const operator = this.#tokens.shift();
    if (operator === undefined) return left;
    if (operator.text !== '==' && operator.text !== '!=') throw this.#error();
    const right = this.#operand();
    if (this.#tokens.length > 0) throw this.#error();
    return (textOf(left) === textOf(right)) === (operator.text === '==') ? 'true' : '';
  }

  #operand(): Value {
    const token = this.#tokens.shift();
    if (token === undefined) throw this.#error();
    if (token.kind === 'text') return token.text;
    if (token.kind !== 'name') throw this.#error();
    if (token.text === 'config_get') return this.#configGet();
    return this.#path(lookup(this.#values, token.text));
  }

  #path(start: Value): Value {
    let value = start;
    for (;;) {
      const sign = this.#tokens[0]?.text;
      if (this.#tokens[0]?.kind !== 'sign' || (sign !== '.' && sign !== '[')) return value;
      this.#tokens.shift();
      const key = this.#tokens.shift();
      if (key === undefined || key.kind === 'sign') throw this.#error();
      if (sign === '[') this.#expect(']');
      value = typeof value === 'string' ? '' : lookup(value, key.text);
    }
  }

  #configGet(): Value {
    this.#expect('(');
    const key = textOf(this.#operand());
    let fallback: Value = '';
    if (this.#tokens[0]?.text === ',') {
      this.#tokens.shift();
      fallback = this.#operand();
    }
    this.#expect(')');
    const value = lookup(this.#values.config, key);
    return value === '' ? fallback : value;
  }

  #expect(sign: string): void {
    const token = this.#tokens.shift();
    if (token?.kind !== 'sign' || token.text !== sign) throw this.#error();
  }

  #error(): TemplateError {
    return new TemplateError(`Expression "${this.#source}" is not supported`);
  }
}

function lookup(map: object, key: string): Value {
  return Object.hasOwn(map, key) ? ((map as Record<string, Value>)[key] ?? '') : '';
}
