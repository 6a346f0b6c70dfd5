#!/usr/bin/env node
// Enforces the import table of the house for everything but tests and conformance suites; fails also when it looked at fewer files than there are rooms.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOMS, roomOf, violations } from './lib/layers.mjs';
import { ROOT } from './lib/process.mjs';

function sources() {
  return readdirSync(join(ROOT, 'packages')).flatMap((name) =>
    readdirSync(join(ROOT, 'packages', name, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((path) => /\.tsx?$/u.test(path) && !/(?:\.test|-conformance)\.tsx?$|\/conformance\//u.test(path))
      .map((path) => `packages/${name}/src/${path}`),
  );
}

const files = sources();
const found = files.flatMap((path) => violations(path, readFileSync(join(ROOT, path), 'utf8')));
const rooms = new Set(files.map((path) => roomOf(path)?.name));
for (const line of found) console.error(line);
if (files.length < 50 || rooms.size < ROOMS.length - 1) {
  console.error(`layering looked at only ${files.length} files in ${rooms.size} rooms: it cannot have seen the tree`);
  process.exit(1);
}
console.log(`layering: ${files.length} files in ${rooms.size} rooms, ${found.length} forbidden imports`);
process.exit(found.length > 0 ? 1 : 0);
