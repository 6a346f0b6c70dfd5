import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ReturnFilter } from './pty.ts';

function filtered(chunks: readonly string[]): string {
  const seen: string[] = [];
  const filter = new ReturnFilter((data) => seen.push(data.toString()));
  for (const chunk of chunks) filter.add(Buffer.from(chunk));
  filter.flush();
  return seen.join('');
}

describe('ReturnFilter', () => {
  it('takes one return from every newline', () => {
    expect(filtered(['a\r\nb\r\r\nc\n\r\n'])).toBe('a\nb\r\nc\n\n');
  });

  it('keeps returns of their own', () => {
    expect(filtered(['50%\r100%\rx', '\r', 'y\r'])).toBe('50%\r100%\rx\ry\r');
  });

  it('sees a pair that two reads split', () => {
    expect(filtered(['a\r', '\nb\r\r', '\nc'])).toBe('a\nb\r\nc');
  });

  describe('in time', () => {
    beforeEach(() => void vi.useFakeTimers());
    afterEach(() => void vi.useRealTimers());
    let seen = '';
    const start = (): ReturnFilter => {
      seen = '';
      return new ReturnFilter((data) => void (seen += data.toString()));
    };

    it('gives out a return that nothing follows', () => {
      start().add(Buffer.from('50%\r'));
      expect(seen).toBe('50%');
      vi.advanceTimersByTime(60);
      expect(seen).toBe('50%\r');
    });

    it('does not take the newline of a slow terminal for another', () => {
      const filter = start();
      filter.add(Buffer.from('a\r\r'));
      vi.advanceTimersByTime(900);
      filter.add(Buffer.from('\nb\r'));
      vi.advanceTimersByTime(60);
      filter.add(Buffer.from('\r\nc'));
      expect(seen).toBe('a\r\nb\r\nc');
    });

    it('takes a pair for one although its thread was held up between the halves', () => {
      const filter = start();
      filter.add(Buffer.from('a\r\r'));
      // Its time is over, but what waits to be read comes first.
      setTimeout(() => setImmediate(() => filter.add(Buffer.from('\nb'))), 1000);
      vi.advanceTimersByTime(1000);
      vi.advanceTimersByTime(1000);
      expect(seen).toBe('a\r\nb');
    });

    it('holds it back while nothing is read', () => {
      const filter = start();
      filter.add(Buffer.from('a\r'));
      filter.stay();
      vi.advanceTimersByTime(60_000);
      filter.wait();
      vi.advanceTimersByTime(40);
      filter.add(Buffer.from('\nb'));
      expect(seen).toBe('a\nb');
    });
  });
});
