import type { Operation } from '@keelson/api';
import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { Output, type Terminal } from './output.ts';

function start(): { out: Output; shown: () => string } {
  const stderr: PassThrough & { isTTY?: boolean; columns?: number } = new PassThrough();
  stderr.isTTY = true;
  const terminal: Terminal = stderr;
  let text = '';
  stderr.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const out = new Output({ format: 'table', quiet: false, stdout: new PassThrough(), stderr: terminal });
  return { out, shown: () => text.split('\r\u001b[2K').at(-1) ?? '' };
}

const operation = (metadata: Record<string, unknown> | null): Operation => ({ metadata }) as Operation;

describe('progress', () => {
  test('of the stage that an operation is at, with a bar where it knows how much is done', () => {
    const { out, shown } = start();
    const tell = out.operation('Copying c1');
    tell(operation(null));
    expect(shown()).toBe('Copying c1 …');
    tell(operation({ fs_progress: 'c1: 1.00MB', progress: { stage: 'fs' } }));
    expect(shown()).toBe('Copying c1: c1: 1.00MB');
    const both = { fs_progress: 'c1: 1.00MB', block_progress: 'c1: 50%', progress: { stage: 'block', percent: '50' } };
    tell(operation(both));
    expect(shown()).toBe('Copying c1: [##########----------] c1: 50%');
  });

  test('of a copy: the receiving server says it once it says anything', () => {
    const { out, shown } = start();
    const tell = out.copying('Copying c1');
    tell(operation({ fs_progress: 'sent' }), 'source');
    tell(operation({}), 'target');
    expect(shown()).toBe('Copying c1: sent');
    tell(operation({ fs_progress: 'received' }), 'target');
    tell(operation({ fs_progress: 'sent more' }), 'source');
    expect(shown()).toBe('Copying c1: received');
  });

  test('of bytes, whose number may be unknown', () => {
    const { out, shown } = start();
    out.bytes('Sending a', 400)(100);
    expect(shown()).toBe('Sending a: [#####---------------] 25%');
    out.bytes('Sending b', undefined)(2048);
    expect(shown()).toMatch(/^Sending b: 2.*K/);
  });
});
