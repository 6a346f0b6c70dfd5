import { expect, test } from 'vitest';
import { compileFilter } from './filter.ts';

const record = {
  name: 'web-1',
  status: 'Running',
  ephemeral: false,
  config: { 'image.os': 'Debian', 'user.note': 'two words' },
  devices: { root: { type: 'disk' } },
};

test.each([
  ['name eq web-1', true],
  ['name eq WEB-1', true],
  ['name eq web', false],
  ['name eq web-.*', true],
  ['name ne web-1', false],
  ['not name eq web-1', false],
  ['name eq "web-1"', true],
  ['config.user.note eq "two words"', true],
  ['config.image.os eq debian', true],
  ['devices.root.type eq disk', true],
  ['devices.root.type.x eq disk', false],
  ['ephemeral eq false', true],
  ['absent eq x', false],
  ['constructor eq x', false],
  ['name eq [', false],
  ['name eq x or status eq Running', true],
  ['name eq x and status eq Running', false],
  // From left to right: (name eq web-1 or name eq x) and status eq Stopped
  ['name eq web-1 or name eq x and status eq Stopped', false],
])('%s → %s', (filter, expected) => {
  expect(compileFilter(filter)(record)).toBe(expected);
});

test.each([
  ['name eq', 'clause has no value'],
  ['name=x', 'clause has no operator'],
  ['name foo bar', 'unknown operator "foo"'],
  ['name eq a xx name eq b', 'invalid clause composition'],
  ['name eq "a', 'unterminated quote'],
  ['name eq a and', 'clause is empty'],
])('refuses %s', (filter, why) => {
  expect(() => compileFilter(filter)).toThrow(`Invalid filter: ${why}`);
});

test('a pattern made to backtrack ends at once', () => {
  const slow = compileFilter('name eq (a+)+');
  const started = performance.now();
  expect(slow({ name: `${'a'.repeat(20_000)}b` })).toBe(false);
  expect(performance.now() - started).toBeLessThan(2000);
});
