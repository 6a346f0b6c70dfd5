#!/usr/bin/env node
// Everything that needs neither root nor a network: format, lint, types, layering, unused code, unit tests.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, capture, pass } from './lib/process.mjs';
import { unitTests } from './lib/suites.mjs';

const PACKAGES = ['api', 'client', 'cli', 'daemon', 'testkit'];

async function types() {
  const projects = [...PACKAGES.map((name) => `packages/${name}`), 'tests', 'scripts', 'bench', 'examples'];
  let failed = 0;
  for (const project of projects.filter((path) => existsSync(join(ROOT, path, 'tsconfig.json')))) {
    const { code, stdout } = await capture(['tsc', '-p', project, '--noEmit']);
    // A tests folder without a test yet has nothing to check.
    if (code === 0 || stdout.includes('TS18003')) continue;
    failed = code;
    process.stdout.write(stdout);
  }
  return failed;
}

/** @type {[string, () => Promise<number>][]} */
const STAGES = [
  ['lock', () => pass(['node', 'scripts/complete-lockfile.mjs', '--check'])],
  ['format', () => pass(['biome', 'format', '--max-diagnostics=20', '.'])],
  ['lint', () => pass(['oxlint', '--type-aware', '--quiet'])],
  ['types', types],
  ['layering', () => pass(['node', 'scripts/layering.mjs'])],
  ['unused code', () => pass(['knip', '--no-progress', '--no-config-hints'])],
];

/**
 * @returns {Promise<{failed: string[], timings: {name: string, ms: number}[], tests: import('./lib/summary.mjs').Summary}>}
 */
export async function check() {
  const failed = [];
  const timings = [];
  for (const [name, stage] of STAGES) {
    const start = Date.now();
    const code = await stage();
    timings.push({ name, ms: Date.now() - start });
    if (code !== 0) failed.push(name);
    console.log(`check ${name}: ${code === 0 ? 'ok' : 'FAILED'} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
  }
  const start = Date.now();
  const tests = await unitTests();
  timings.push({ name: 'unit tests', ms: Date.now() - start });
  return { failed, timings, tests };
}

if (import.meta.filename === process.argv[1]) {
  const { failed, timings, tests } = await check();
  const total = timings.reduce((sum, { ms }) => sum + ms, 0);
  if (tests.failed > 0 || tests.code !== 0) failed.push('unit tests');
  console.log(`unit tests: ${tests.passed} passed, ${tests.failed} failed, ${tests.skipped} skipped`);
  console.log(
    failed.length === 0 ? `check: ok in ${(total / 1000).toFixed(1)} s` : `check: FAILED: ${failed.join(', ')}`,
  );
  process.exit(failed.length === 0 ? 0 : 1);
}
