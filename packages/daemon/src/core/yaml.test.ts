import fc from 'fast-check';
import { parse } from 'yaml';
import { describe, expect, it } from 'vitest';
import { toYaml } from './yaml.ts';

describe('toYaml', () => {
  it('reads well', () => {
    expect(
      toYaml({ container: { name: 'c1', config: {}, profiles: ['default'], on: 'yes', at: '2026-01-02T03:04:05Z' } }),
    ).toBe(
      'container:\n  name: c1\n  config: {}\n  profiles:\n    - default\n  "on": "yes"\n  at: "2026-01-02T03:04:05Z"\n',
    );
  });

  it('quotes what some readers take for numbers', () => {
    expect(toYaml({ e0: 'E-5' })).toBe('"e0": "E-5"\n');
  });

  it.each(['1.1', '1.2'] as const)('is what a reader of YAML %s gets back', (version) => {
    const scalar = fc.oneof(
      fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed()),
      fc.string(),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
    );
    const key = fc.string({ minLength: 1 }).filter((name) => name !== '__proto__');
    const { tree } = fc.letrec((tie) => ({
      tree: fc.dictionary(key, fc.oneof({ maxDepth: 3 }, scalar, fc.array(scalar, { maxLength: 3 }), tie('tree')), {
        maxKeys: 4,
        noNullPrototype: true,
      }),
    }));
    fc.assert(
      fc.property(
        tree.filter((value) => Object.keys(value as object).length > 0),
        (value) => {
          expect(parse(toYaml(value), { version })).toEqual(value);
        },
      ),
      { numRuns: 200 },
    );
  });
});
