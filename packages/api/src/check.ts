import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';

/** A checked request body, or the sentence that says what is wrong with it. */
export type Checked<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly message: string };

/** Checks one JSON body. */
export type Checker<S extends TSchema> = (body: unknown) => Checked<Static<S>>;

interface Shape {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly patternProperties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
}

interface Problem {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: object;
  readonly message: string;
}

/**
 * Makes the checker of a request schema; make it once per route.
 *
 * As Go's decoder does for LXD, it takes null for "not given" (for an empty string in a map of strings), keeps unknown
 * fields out of the way and refuses wrong types; nothing is converted. The body itself is not changed.
 */
export function checkerOf<S extends TSchema>(schema: S): Checker<S> {
  const validator = Compile(schema);
  return (body) => {
    const badKey = { found: undefined as string | undefined };
    const value = withoutNulls(schema as Shape, body, badKey);
    if (badKey.found !== undefined) {
      return { ok: false, message: `Field name ${JSON.stringify(badKey.found)} is not allowed` };
    }
    if (!validator.Check(value)) {
      return { ok: false, message: describe(validator.Errors(value)) };
    }
    return { ok: true, value: value as Static<S> };
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Copy of `value` as far as the schema describes it, null members dropped. */
function withoutNulls(shape: Shape, value: unknown, badKey: { found: string | undefined }): unknown {
  if (Array.isArray(value)) {
    const { items } = shape;
    return items === undefined ? value : value.map((item) => withoutNulls(items, item, badKey));
  }
  if (!isObject(value)) {
    return value;
  }
  const mapped = shape.patternProperties === undefined ? undefined : Object.values(shape.patternProperties)[0];
  const entries: [string, unknown][] = [];
  for (const [key, member] of Object.entries(value)) {
    if (key === '__proto__' || hasControl(key)) {
      badKey.found = key;
      continue;
    }
    const known = shape.properties?.[key] ?? mapped;
    const item = known === undefined ? member : withoutNulls(known, member, badKey);
    if (item === null && known !== undefined && !acceptsNull(known)) {
      if (known === mapped) {
        entries.push([key, emptyOf(known)]);
      }
      continue;
    }
    entries.push([key, item]);
  }
  return Object.fromEntries(entries);
}

/** Value that null stands for as a map's member. */
function emptyOf(shape: Shape): unknown {
  return shape.type === 'string' || shape.anyOf?.some((choice) => choice.type === 'string') === true ? '' : {};
}

function acceptsNull(shape: Shape): boolean {
  return (
    shape.type === 'null' || (shape.type === undefined && (shape.anyOf === undefined || shape.anyOf.some(acceptsNull)))
  );
}

function hasControl(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code < 32 || code === 127) {
      return true;
    }
  }
  return false;
}

/** First problem as a sentence that names the field. */
function describe(problems: readonly Problem[]): string {
  const first = problems.find((problem) => problem.keyword !== 'const') ?? problems[0];
  if (first === undefined) {
    return 'Invalid request body';
  }
  const field = fieldName(first.instancePath);
  if (first.keyword === 'required') {
    const missing = (first.params as { requiredProperties?: readonly string[] }).requiredProperties?.[0] ?? '';
    return field === '' ? `No ${missing} provided` : `No ${missing} provided in field "${field}"`;
  }
  if (first.keyword === 'anyOf') {
    const allowed = problems
      .filter((problem) => problem.keyword === 'const' && problem.instancePath === first.instancePath)
      .map((problem) => JSON.stringify((problem.params as { allowedValue?: unknown }).allowedValue));
    return allowed.length === 0
      ? `Field "${field}" is invalid`
      : `Field "${field}" must be one of ${allowed.join(', ')}`;
  }
  return field === '' ? `Request body ${first.message}` : `Field "${field}" ${first.message}`;
}

function fieldName(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .join('.');
}
