import { describe, expect, test } from 'vitest';
import { detachOn } from './console.ts';

/** What reaches the guest of `pieces`, and whether the console was left. */
function typed(...pieces: string[]): { sent: string; left: boolean } {
  let [sent, left] = ['', false];
  const see = detachOn(
    () => (left = true),
    (data) => (sent += Buffer.from(data).toString()),
  );
  for (const piece of pieces) {
    const data = Buffer.from(piece);
    if (!see(data)) sent += piece;
  }
  return { sent, left };
}

describe('Ctrl-A q', () => {
  test('leaves, in one piece or two', () => {
    expect(typed('ls\n', '\u0001q')).toEqual({ sent: 'ls\n', left: true });
    expect(typed('\u0001', 'q')).toEqual({ sent: '', left: true });
  });

  test('Ctrl-A with something else goes to the guest', () => {
    expect(typed('\u0001', 'x')).toEqual({ sent: '\u0001x', left: false });
    expect(typed('ab\u0001', 'c')).toEqual({ sent: 'ab\u0001c', left: false });
    expect(typed('\u0001d')).toEqual({ sent: '\u0001d', left: false });
  });

  test('a q alone is a q', () => {
    expect(typed('q')).toEqual({ sent: 'q', left: false });
  });
});
