import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './process.mjs';

/** Packages with native parts stay outside the bundles: they load files beside themselves. */
export const EXTERNAL = ['koffi'];

/** The programs, in the folders of their packages. `entries` that do not exist yet are left out. */
const PROGRAMS = [
  { package: 'daemon', entries: ['src/main.ts'], workers: /(?:^|\/)(?:[^/]+-)?worker\.ts$/u },
  { package: 'cli', entries: ['src/main.ts'], workers: /(?:^|\/)(?:[^/]+-)?worker\.ts$/u },
];

/** The libraries: built by the TypeScript compiler, in the order of their dependencies. */
export const LIBRARIES = ['api', 'client'];

/** Source files below a folder of the repository, tests left out, sorted. */
function sourcesBelow(folder) {
  if (!existsSync(join(ROOT, folder))) return [];
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.tsx?$/u.test(path) && !/\.test\.tsx?$/u.test(path))
    .map((path) => `${folder}/${path}`)
    .sort();
}

/** What esbuild has to bundle: entry files from the root, and the folder for each program's output. */
export function bundlePlan(sources = sourcesBelow) {
  return PROGRAMS.map(({ package: name, entries, workers }) => {
    const files = sources(`packages/${name}/src`);
    const base = `packages/${name}/`;
    const wanted = files.filter((path) => entries.includes(path.slice(base.length)) || workers.test(path));
    return { name, entries: wanted, outbase: `${base}src`, outdir: `${base}dist` };
  }).filter(({ entries }) => entries.length > 0);
}

/** A fingerprint of everything the build reads; equal fingerprints mean nothing to do. */
export function inputsFingerprint() {
  const hash = createHash('sha256');
  const files = ['package-lock.json', 'tsconfig.base.json', 'scripts/build.mjs', 'scripts/lib/bundles.mjs'];
  for (const name of ['api', 'client', 'cli', 'daemon']) {
    files.push(
      `packages/${name}/package.json`,
      `packages/${name}/tsconfig.json`,
      ...sourcesBelow(`packages/${name}/src`),
    );
  }
  for (const path of files)
    hash
      .update(path)
      .update('\0')
      .update(readFileSync(join(ROOT, path)))
      .update('\0');
  return hash.digest('hex');
}
