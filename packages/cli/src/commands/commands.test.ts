import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { bashCompletion } from '../output/bash-completion.ts';
import { markdown } from '../output/markdown.ts';
import { commands } from './index.ts';

test('docs/cli.md is what the commands say: keelson --help-markdown >docs/cli.md', () => {
  const file = new URL('../../../../docs/cli.md', import.meta.url);
  expect(readFileSync(file, 'utf8')).toBe(markdown(commands));
});

test('no two commands have the same words, and none is the group of another', () => {
  const paths = commands.map(({ path }) => path.join(' '));
  expect(new Set(paths).size).toBe(paths.length);
  expect(paths.filter((path) => paths.some((other) => other.startsWith(`${path} `)))).toEqual([]);
});

test.each(commands.map((command) => [command.path.join(' '), command] as const))('%s', (_path, command) => {
  const { args = [], options = [], summary } = command;
  const names = options.flatMap(({ name, short }) => [name, ...(short === undefined ? [] : [short])]);
  expect(new Set(names).size).toBe(names.length);
  expect(names).not.toContain('format');
  expect(args.slice(0, -1).filter(({ rest }) => rest)).toEqual([]);
  const firstOptional = args.findIndex(({ optional }) => optional);
  if (firstOptional >= 0) expect(args.slice(firstOptional).every(({ optional }) => optional)).toBe(true);
  expect(summary).toMatch(/^[A-Z].*[^.]$/);
});

test('bash completion knows every command and its options', () => {
  const script = bashCompletion(commands);
  for (const { path, options = [] } of commands) {
    expect(script).toContain(`'${path.join(' ')}') options=`);
    for (const { name } of options) expect(script).toContain(`--${name}`);
  }
});
