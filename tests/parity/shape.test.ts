import { describe, expect, it } from 'vitest';
import { sameShape, shapeOf } from './shape.ts';

describe('shapeOf', () => {
  it('sees names and types, not values', () => {
    expect(shapeOf({ b: 1, a: 'x', config: { k: 'v' }, list: [{ n: 1 }, { n: 2 }] })).toBe(
      '{a:string, b:number, config:map of string, list:[{n:number}]}',
    );
  });

  it('takes null, an empty list and an empty map for the same', () => {
    expect(sameShape(shapeOf({ used_by: null }), shapeOf({ used_by: ['x'] }))).toBe(true);
    expect(sameShape(shapeOf({ config: {} }), shapeOf({ config: { a: 'b' } }))).toBe(true);
  });

  it('tells a missing field and another type', () => {
    expect(sameShape(shapeOf({ a: 1 }), shapeOf({ a: '1' }))).toBe(false);
    expect(sameShape(shapeOf({ a: 1, b: 2 }), shapeOf({ a: 1 }))).toBe(false);
  });
});
