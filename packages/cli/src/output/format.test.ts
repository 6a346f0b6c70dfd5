import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { bytes, type Column, formatList, when } from './format.ts';

interface Row {
  readonly name: string;
  readonly note: string;
}

const columns: Column<Row>[] = [
  { title: 'NAME', text: ({ name }) => name },
  { title: 'NOTE', text: ({ note }) => note },
];

describe('formatList', () => {
  test('table: wide characters and several lines keep the columns straight', () => {
    const rows = [
      { name: '日本', note: 'a\nbb' },
      { name: 'x', note: '' },
    ];
    expect(formatList('table', columns, rows)).toBe(
      [
        '+------+------+',
        '| NAME | NOTE |',
        '+------+------+',
        '| 日本 | a    |',
        '|      | bb   |',
        '+------+------+',
        '| x    |      |',
        '+------+------+',
        '',
      ].join('\n'),
    );
  });

  test('table: an empty list still shows its titles', () => {
    expect(formatList('table', columns, [])).toBe('+------+------+\n| NAME | NOTE |\n+------+------+\n');
  });

  test('table: control characters of a guest cannot reach the terminal', () => {
    const text = formatList('table', columns, [{ name: 'a\u001b[31mb\u0007', note: '\r\u009bx\tz' }]);
    expect(text).toContain('| a?[31mb? | ??x?z |');
  });

  test('compact: one line a record', () => {
    expect(formatList('compact', columns, [{ name: 'a', note: '1\n2' }])).toBe('NAME  NOTE\na     1 2\n');
  });

  test('csv: quotes what needs it, without titles', () => {
    const rows = [
      { name: 'a,b', note: 'say "hi"' },
      { name: 'plain', note: 'two\nlines' },
    ];
    expect(formatList('csv', columns, rows)).toBe('"a,b","say ""hi"""\nplain,"two\nlines"\n');
  });

  test('json and yaml: the records themselves', () => {
    const rows = [{ name: 'a', note: 'yes' }];
    expect(JSON.parse(formatList('json', columns, rows))).toEqual(rows);
    expect(parse(formatList('yaml', columns, rows))).toEqual(rows);
  });
});

test.each([
  [0, '0B'],
  [1023, '1023B'],
  [1024, '1.00KiB'],
  [1.5 * 1024 ** 3, '1.50GiB'],
  [2 ** 60, '1024.00PiB'],
])('bytes %d', (count, text) => {
  expect(bytes(count)).toBe(text);
});

test.each([
  ['2026-11-22T05:18:17.123Z', '2026-11-22 05:18:17 UTC'],
  ['1970-01-01T00:00:00Z', ''],
  ['0001-01-01T00:00:00Z', ''],
  ['', ''],
])('when %j', (timestamp, text) => {
  expect(when(timestamp)).toBe(text);
});
