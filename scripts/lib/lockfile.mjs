/**
 * npm writes an optional platform package into the lock only when the registry it asked could resolve it, and `npm ci`
 * then refuses the lock. These planners add the entries that are missing, with the platform their names state, so that
 * npm ci accepts the lock and skips them on every machine they are not made for.
 */

const OS = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32'];
const CPU = ['arm64', 'arm', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'x64', 'wasm32'];

/**
 * The platform a package name such as `@x/binding-linux-arm64-musl` states.
 * @param {string} name
 * @returns {{os?: string[], cpu?: string[], libc?: string[]}}
 */
export function platformOf(name) {
  const words = name.slice(name.indexOf('/') + 1).split(/[-_/]/u);
  const os = words.find((word) => OS.includes(word));
  const cpu = words.find((word) => CPU.includes(word));
  const libc = os !== 'linux' ? undefined : words.some((word) => word.startsWith('musl')) ? 'musl' : 'glibc';
  return { ...(cpu && { cpu: [cpu] }), ...(os && { os: [os] }), ...(libc && { libc: [libc] }) };
}

/**
 * Optional dependencies that no entry of the lock satisfies.
 * @param {{packages: Record<string, any>}} lock
 * @returns {{name: string, version: string, dev: boolean}[]}
 */
export function missingOptionals(lock) {
  const present = new Set(Object.keys(lock.packages).map((path) => path.slice(path.lastIndexOf('node_modules/') + 13)));
  const missing = new Map();
  for (const entry of Object.values(lock.packages)) {
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      if (!present.has(name)) missing.set(name, { name, version: String(version), dev: entry.dev === true });
    }
  }
  return [...missing.values()];
}

/**
 * The lock with every missing optional package added, keys sorted as npm sorts them.
 * @param {{packages: Record<string, any>}} lock
 */
export function completeLock(lock) {
  const packages = { ...lock.packages };
  for (const { name, version, dev } of missingOptionals(lock)) {
    const platform = platformOf(name);
    if (!platform.os && !platform.cpu) throw new Error(`cannot tell the platform of optional package ${name}`);
    packages[`node_modules/${name}`] = { version, ...(dev && { dev }), optional: true, ...platform };
  }
  const sorted = Object.fromEntries(Object.entries(packages).sort(([a], [b]) => (a < b ? -1 : 1)));
  return { ...lock, packages: sorted };
}

/**
 * Lines of a lock that name a place to download from; a lock must be usable with any registry.
 * @param {{packages: Record<string, any>}} lock
 */
export function registryReferences(lock) {
  return Object.entries(lock.packages)
    .filter(([, entry]) => /^(?:https?|git)/u.test(entry.resolved ?? ''))
    .map(([path]) => path);
}
