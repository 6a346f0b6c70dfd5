import { posix } from 'node:path';

/**
 * The import table of the house. A file belongs to the first room whose pattern matches it; it may import its own room
 * and what the room lists. `types` are rooms of which only types may be imported. See docs/architecture.md.
 */
const DAEMON = 'packages/daemon/src/';
export const ROOMS = [
  { name: 'api', match: /^packages\/api\//u, may: [], node: false },
  { name: 'client', match: /^packages\/client\//u, may: ['api'] },
  { name: 'cli', match: /^packages\/cli\//u, may: ['api', 'client'] },
  { name: 'testkit', match: /^packages\/testkit\//u, may: '*' },
  { name: 'main', match: /^packages\/daemon\/src\/[^/]+\.ts$/u, may: ['assembly', 'core', 'api'] },
  { name: 'assembly', match: /^packages\/daemon\/src\/assembly\//u, may: '*' },
  { name: 'http', match: /^packages\/daemon\/src\/http\//u, may: ['caller', 'core', 'api'], types: ['services'] },
  // Who calls and in which project: pure words that door and office share.
  {
    name: 'caller',
    match: /^packages\/daemon\/src\/services\/(?:certificates\/caller|projects\/scope)\.ts$/u,
    may: ['core', 'api'],
    types: ['services', 'state'],
  },
  {
    name: 'services',
    match: /^packages\/daemon\/src\/services\//u,
    may: ['caller', 'driver-contract', 'state', 'core', 'api'],
  },
  {
    name: 'driver-contract',
    match: /^packages\/daemon\/src\/drivers\/[^/]+\/(?:contract|(?:[^/]+-)?types)\.ts$/u,
    may: ['core', 'api'],
    types: ['host'],
  },
  { name: 'driver', match: /^packages\/daemon\/src\/drivers\//u, may: ['driver-contract', 'host', 'core', 'api'] },
  { name: 'host', match: /^packages\/daemon\/src\/host\//u, may: ['core'], types: ['api'] },
  { name: 'state', match: /^packages\/daemon\/src\/state\//u, may: ['core'], types: ['api'] },
  { name: 'core', match: /^packages\/daemon\/src\/core\//u, may: [], types: ['api'] },
];
const PACKAGES = {
  '@keelson/api': 'api',
  '@keelson/client': 'client',
  '@keelson/daemon': 'main',
  '@keelson/testkit': 'testkit',
};
const SPAWNERS = /^(?:node:)?child_process$/u;
const MAY_SPAWN = new Set(['host', 'testkit', 'cli', 'tests']);

/** @param {string} path */
export function roomOf(path) {
  return ROOMS.find((room) => room.match.test(path));
}

const driverKind = (path) => (path.startsWith(`${DAEMON}drivers/`) ? path.split('/')[4] : undefined);

/**
 * The import statements of a source text.
 * @param {string} text
 * @returns {{specifier: string, typeOnly: boolean, line: number}[]}
 */
export function importsOf(text) {
  const found = [];
  const pattern =
    /^[ \t]*(?:import|export)(\s+type)?\b(?:[^'";]*?\bfrom)?\s*['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gmu;
  for (const match of text.matchAll(pattern)) {
    const line = text.slice(0, match.index).split('\n').length;
    found.push({ specifier: match[2] ?? match[3] ?? '', typeOnly: match[1] !== undefined, line });
  }
  return found;
}

function targetOf(path, specifier) {
  if (specifier.startsWith('.')) {
    const target = posix.normalize(posix.join(posix.dirname(path), specifier));
    return { room: roomOf(target)?.name ?? 'outside', target };
  }
  const name = Object.keys(PACKAGES).find((known) => specifier === known || specifier.startsWith(`${known}/`));
  return name ? { room: PACKAGES[name], target: specifier } : undefined;
}

function judge(path, room, found) {
  if (found.specifier.startsWith('node:') && room.node === false) return 'may not use Node: it also runs in a browser';
  if (SPAWNERS.test(found.specifier) && !MAY_SPAWN.has(room.name)) return 'may not start processes: only host/ does';
  const to = targetOf(path, found.specifier);
  if (!to || to.room === room.name || room.may === '*') return crossesKinds(path, to);
  if (room.may.includes(to.room)) return crossesKinds(path, to);
  if (room.types?.includes(to.room)) return found.typeOnly ? undefined : `may import only types of ${to.room}`;
  return `may not import ${to.room}`;
}

function crossesKinds(path, to) {
  const [own, other] = [driverKind(path), to && driverKind(to.target)];
  return own && other && own !== other ? `may not import another kind of driver (${other})` : undefined;
}

/**
 * The forbidden imports of one file, as `path:line: sentence`.
 * @param {string} path from the repository's root, with `/`
 * @param {string} text
 * @returns {string[]}
 */
export function violations(path, text) {
  const room = roomOf(path);
  if (!room) return [`${path}: belongs to no room; add it to scripts/lib/layers.mjs`];
  return importsOf(text).flatMap((found) => {
    const why = judge(path, room, found);
    return why ? [`${path}:${found.line}: ${room.name} ${why}: ${found.specifier}`] : [];
  });
}
