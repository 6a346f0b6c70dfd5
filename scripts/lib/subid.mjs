const WANTED = { base: 100_000, count: 1_000_000_000 };

function parse(text) {
  return text
    .split('\n')
    .map((line) => line.split(':'))
    .filter((parts) => parts.length === 3)
    .map(([user, base, count]) => ({ user, base: Number(base), count: Number(count) }));
}

/**
 * The text /etc/subuid or /etc/subgid must have so that root may map container ids; `undefined` when it already does.
 * A range that belongs to another user is never given to containers: root's begins above it.
 * @param {string} text
 * @returns {string | undefined}
 */
export function planSubid(text) {
  const ranges = parse(text);
  if (ranges.some((range) => range.user === 'root' && range.count >= WANTED.count)) return undefined;
  const others = ranges.filter((range) => range.user !== 'root' && range.user !== '_lxd');
  const above = Math.max(0, ...others.map((range) => range.base + range.count));
  const base = Math.max(WANTED.base, Math.ceil(above / 65_536) * 65_536);
  const lines = text === '' || text.endsWith('\n') ? text : `${text}\n`;
  return `${lines}root:${base}:${WANTED.count}\n`;
}
