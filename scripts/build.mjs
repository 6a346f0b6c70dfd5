#!/usr/bin/env node
// Builds dist/ of every package: the libraries with the TypeScript compiler, daemon and CLI as bundles.
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { EXTERNAL, LIBRARIES, bundlePlan, inputsFingerprint } from './lib/bundles.mjs';
import { ROOT, must } from './lib/process.mjs';
import { Steps } from './lib/progress.mjs';

const STAMP = join(ROOT, 'node_modules', '.keelson-build');

async function buildLibrary(name) {
  await must(['tsc', '-p', `packages/${name}/tsconfig.build.json`]);
  return `packages/${name}/dist`;
}

async function bundle({ entries, outbase, outdir }) {
  const esbuild = await import('esbuild');
  await esbuild.build({
    absWorkingDir: ROOT,
    entryPoints: entries,
    outbase,
    outdir,
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    // What is imported on demand stays in files of its own, which Node's compile cache keeps ready.
    splitting: true,
    minifyWhitespace: true,
    minifySyntax: true,
    conditions: ['source'],
    external: EXTERNAL,
    sourcemap: 'linked',
    logLevel: 'warning',
    legalComments: 'none',
    // Bundled CommonJS packages call require. A first line #! of the source stays first.
    banner: {
      js: `import { createRequire as __createRequire } from 'node:module';\nconst require = __createRequire(import.meta.url);`,
    },
  });
  const main = join(ROOT, outdir, 'main.js');
  if (existsSync(main)) chmodSync(main, 0o755);
  return `${entries.length} entries in ${outdir}`;
}

export async function build(steps, force = false) {
  const fingerprint = inputsFingerprint();
  const done = existsSync(STAMP) && readFileSync(STAMP, 'utf8') === fingerprint;
  const outputs = [...LIBRARIES.map((name) => `packages/${name}/dist`), ...bundlePlan().map(({ outdir }) => outdir)];
  if (done && !force && outputs.every((path) => existsSync(join(ROOT, path)))) {
    await steps.run('build', async () => 'already there');
    return;
  }
  for (const path of outputs) rmSync(join(ROOT, path), { recursive: true, force: true });
  for (const name of LIBRARIES) await steps.run(`build ${name}`, () => buildLibrary(name));
  for (const program of bundlePlan()) await steps.run(`build ${program.name}`, () => bundle(program));
  writeFileSync(STAMP, fingerprint);
}

if (import.meta.filename === process.argv[1]) {
  try {
    await build(new Steps(), process.argv.includes('--force'));
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
}
