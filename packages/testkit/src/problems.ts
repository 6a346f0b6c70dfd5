const WARN = 40;
const SHOWN = 8;

/** The last warnings and errors that a daemon logged, for the message of a test that waits in vain. */
export function problemsOf({ logs }: { readonly logs: string }): string {
  const lines = logs.split('\n').filter((line) => {
    try {
      return ((JSON.parse(line) as { level?: number }).level ?? 0) >= WARN;
    } catch {
      return line !== '';
    }
  });
  return lines.length === 0 ? 'it logged no problem' : `it logged\n${lines.slice(-SHOWN).join('\n')}`;
}

/** Lines that a daemon logged so far. */
export function logged({ logs }: { readonly logs: string }, words: RegExp): string[] {
  return logs.split('\n').filter((line) => words.test(line));
}
