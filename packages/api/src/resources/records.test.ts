import { type TSchema, Type } from 'typebox';
import { describe, expect, test } from 'vitest';
import * as api from '../index.ts';
import { recordProblems } from '../record-problems.ts';
import answers from './lxd-records.json' with { type: 'json' };

const exported: Readonly<Record<string, unknown>> = { ...api };
const schemas = new Map<string, TSchema>();
for (const value of Object.values(exported)) {
  const id = typeof value === 'object' ? (value as { $id?: unknown }).$id : undefined;
  if (typeof id === 'string') {
    schemas.set(id, value as TSchema);
  }
}

test.each(answers)('a record of LXD 5.0.2 fits $schema, number %#', ({ schema, record }) => {
  expect(recordProblems(schemas.get(schema) ?? Type.Never(), record)).toEqual([]);
});

test('schemas have the name they are exported by', () => {
  expect([...schemas].filter(([id, schema]) => exported[id] !== schema).map(([id]) => id)).toEqual([]);
  expect(schemas.size).toBeGreaterThan(120);
});

describe('recordProblems', () => {
  const profile = { name: 'p', description: '', config: {}, devices: {}, used_by: [] };

  test('tells what is missing, wrong and unknown', () => {
    const { name: _, ...nameless } = profile;
    expect(recordProblems(api.Profile, nameless)).toEqual(['/ must have required properties name']);
    expect(recordProblems(api.Profile, { ...profile, config: { a: 1 } })).toEqual(['/config/a must be string']);
    expect(recordProblems(api.Profile, { ...profile, zork: 1 })).toEqual(['/zork is not in the schema']);
  });

  test('looks into lists, and takes the nearest choice', () => {
    const list = api.routes['profiles.list'].response;
    expect(recordProblems(list, ['/1.0/profiles/p'])).toEqual([]);
    expect(recordProblems(list, [profile, { ...profile, zork: 1 }])).toEqual(['/1/zork is not in the schema']);
  });
});
