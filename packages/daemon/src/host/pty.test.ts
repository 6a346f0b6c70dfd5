import { describe, expect, it } from 'vitest';
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
});
