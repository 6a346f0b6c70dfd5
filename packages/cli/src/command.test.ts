import { expect, test } from 'vitest';
import { keyValues, UsageError } from './command.ts';

test('keyValues keeps everything after the first equals sign', () => {
  expect(keyValues(['a=1', 'b=x=y', 'c='])).toEqual({ a: '1', b: 'x=y', c: '' });
});

test.each(['a', '=1', ''])('keyValues refuses %j', (word) => {
  expect(() => keyValues([word])).toThrow(UsageError);
});
