import { readFileSync, readdirSync } from 'node:fs';

/**
 * Things an interrupted earlier run may have left: mounts below a test's temporary folder, and bridges of tests.
 * @param {string} mounts text of /proc/self/mounts
 * @param {readonly string[]} interfaces
 */
export function findLeftovers(mounts, interfaces) {
  const mounted = mounts
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((path) => /^\/tmp\/keelson-[^/]+\//u.test(path));
  return [
    ...mounted.map((path) => `mount ${path}`),
    ...interfaces.filter((name) => name.startsWith('kt')).map((name) => `interface ${name}`),
  ];
}

/** Says what is lying about; cleaning up is the user's choice, since another run may be using it. */
export function warnOfLeftovers() {
  const found = findLeftovers(readFileSync('/proc/self/mounts', 'utf8'), readdirSync('/sys/class/net'));
  if (found.length === 0) return;
  console.warn(`warning: an earlier or another test run left ${found.length} things: ${found.slice(0, 5).join(', ')}`);
}
