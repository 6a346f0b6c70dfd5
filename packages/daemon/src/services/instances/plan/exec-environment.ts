const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const PREFIX = 'environment.';

/** Environment of a command: the caller's wins over the instance's `environment.*`, which wins over the defaults. */
export function execEnvironment(
  config: Readonly<Record<string, string>>,
  wanted: Readonly<Record<string, string>>,
  user: number,
): Record<string, string> {
  const own = Object.entries(config)
    .filter(([key]) => key.startsWith(PREFIX))
    .map(([key, value]) => [key.slice(PREFIX.length), value] as const);
  const root = user === 0 ? { HOME: '/root', USER: 'root' } : {};
  return { ...root, LANG: 'C.UTF-8', PATH, ...Object.fromEntries(own), ...wanted };
}
