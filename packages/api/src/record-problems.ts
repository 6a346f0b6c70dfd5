import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly patternProperties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
}

/**
 * What keeps a record of a server from fitting its schema: wrong or missing members, and members the schema does not
 * describe. Empty when it fits. For tests; schemas themselves tolerate unknown members.
 */
export function recordProblems(schema: TSchema, record: unknown): string[] {
  const wrong = Compile(schema)
    .Errors(record)
    .map((problem) => `${problem.instancePath || '/'} ${problem.message}`);
  return [...wrong, ...undescribed(schema as Shape, record, '')];
}

function undescribed(shape: Shape, value: unknown, at: string): string[] {
  if (shape.anyOf !== undefined) {
    const fitting = shape.anyOf.filter((choice) => Compile(choice as TSchema).Check(value));
    const found = fitting.map((choice) => undescribed(choice, value, at));
    return found.toSorted((left, right) => left.length - right.length)[0] ?? [];
  }
  if (Array.isArray(value)) {
    const { items } = shape;
    return items === undefined ? [] : value.flatMap((item, index) => undescribed(items, item, `${at}/${index}`));
  }
  if (typeof value !== 'object' || value === null || (shape.properties ?? shape.patternProperties) === undefined) {
    return [];
  }
  const rest = Object.values(shape.patternProperties ?? {})[0];
  return Object.entries(value).flatMap(([key, member]) => {
    const known = shape.properties?.[key] ?? rest;
    return known === undefined ? [`${at}/${key} is not in the schema`] : undescribed(known, member, `${at}/${key}`);
  });
}
