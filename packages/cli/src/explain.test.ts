import { APIException, ClientConnectionFailed, NotFound, PreconditionFailed } from '@keelson/client';
import { expect, test } from 'vitest';
import { ExitError, UsageError } from './command.ts';
import { exitCodeOf, explain } from './explain.ts';

const at = (url: string, status: number): { method: string; url: string; status: number } => ({
  method: 'GET',
  url,
  status,
});

test('what is not found is named, with where to look', () => {
  expect(explain(new NotFound('Instance not found', at('/1.0/instances/web?project=p', 404)))).toBe(
    'Instance not found: web\nSee "keelson list".',
  );
  expect(explain(new NotFound('Storage pool not found', at('/1.0/storage-pools/fast', 404)))).toBe(
    'Storage pool not found: fast\nSee "keelson storage list".',
  );
});

test('a name of something else is not put beside it', () => {
  expect(explain(new NotFound('Profile not found', at('/1.0/instances/web', 404)))).toBe('Profile not found');
  expect(explain(new NotFound('not found', at('/1.0/zork', 404)))).toBe('not found');
});

test('who is not allowed or came too late learns what to do', () => {
  expect(explain(new APIException('not authorized', at('/1.0/instances', 403)))).toMatch(
    /^not authorized\n.*keelson remote add/,
  );
  expect(explain(new PreconditionFailed("ETag doesn't match", at('/1.0/profiles/a', 412)))).toMatch(/try again/);
});

test('other errors of the server: its text alone', () => {
  expect(explain(new APIException('Invalid config: x', at('/1.0/instances/web', 400)))).toBe('Invalid config: x');
});

test('no server: where it was looked for and how to start it', () => {
  const error = new ClientConnectionFailed('Cannot reach the server: refused', {
    ...at('/1.0', 0),
    endpoint: 'unix:/x',
  });
  expect(explain(error)).toMatch(/^Cannot reach the server: refused \(unix:\/x\)\nIs the server running\?/);
});

test('several at once', () => {
  const one = new NotFound('Instance not found', at('/1.0/instances/a', 404));
  expect(explain(new AggregateError([one, new Error('b')]))).toBe(
    'Instance not found: a\nSee "keelson list".\nError: b',
  );
});

test('exit codes', () => {
  expect([new UsageError('x'), new ExitError('x', 127), new Error('x'), 'x'].map(exitCodeOf)).toEqual([2, 127, 1, 1]);
});
