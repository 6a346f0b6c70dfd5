import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { expect, test } from 'vitest';
import * as api from '../index.ts';
import answers from './lxd-records.json' with { type: 'json' };

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly patternProperties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
}

const schemas = new Map<string, TSchema>();
for (const value of Object.values({ ...api })) {
  const id = typeof value === 'object' ? (value as { $id?: unknown }).$id : undefined;
  if (typeof id === 'string') {
    schemas.set(id, value as TSchema);
  }
}

/** Members of a record that its schema does not describe. */
function undescribed(shape: Shape, value: unknown, at: string): string[] {
  const choice = shape.anyOf?.find((member) => member.properties ?? member.patternProperties ?? member.items) ?? shape;
  if (Array.isArray(value)) {
    const { items } = choice;
    return items === undefined ? [] : value.flatMap((item) => undescribed(items, item, `${at}[]`));
  }
  if (typeof value !== 'object' || value === null || (choice.properties ?? choice.patternProperties) === undefined) {
    return [];
  }
  const rest = Object.values(choice.patternProperties ?? {})[0];
  return Object.entries(value).flatMap(([key, member]) => {
    const known = choice.properties?.[key] ?? rest;
    return known === undefined ? [`${at}.${key}`] : undescribed(known, member, `${at}.${key}`);
  });
}

test.each(answers)('a record of LXD 5.0.2 fits $schema, number %#', ({ schema, record }) => {
  const found = schemas.get(schema);
  expect(found).toBeDefined();
  if (found === undefined) return;
  expect(Compile(found).Errors(record)).toEqual([]);
  expect(undescribed(found as Shape, record, schema)).toEqual([]);
});

test('schemas have the name they are exported by', () => {
  const exported: Readonly<Record<string, unknown>> = { ...api };
  expect([...schemas].filter(([id, schema]) => exported[id] !== schema).map(([id]) => id)).toEqual([]);
  expect(schemas.size).toBeGreaterThan(120);
});
