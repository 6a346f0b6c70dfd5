import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT, capture, pass, toolEnv } from './process.mjs';
import { emptySummary, summarize } from './summary.mjs';

const REPORTER = join(ROOT, 'scripts', 'lib', 'reporter.mjs');

async function runProject(name, reporter, paths) {
  const folder = mkdtempSync(join(tmpdir(), 'keelson-test-'));
  const file = join(folder, 'summary.json');
  try {
    const argv = [
      'vitest',
      'run',
      '--project',
      name,
      '--reporter',
      reporter,
      '--reporter',
      REPORTER,
      '--passWithNoTests',
    ];
    const code = await pass([...argv, ...paths], { env: { ...toolEnv(), KEELSON_TEST_SUMMARY: file } });
    return summarize(readReport(file), code);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readReport(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

/** Tests without root, network or a container. */
export function unitTests(paths = []) {
  return runProject('unit', process.stdout.isTTY ? 'default' : 'dot', paths);
}

/** Tests on the real host, as root. */
export function hostTests(paths = []) {
  return runProject('host', process.stdout.isTTY ? 'default' : 'verbose', paths);
}

/**
 * Every host test by name, counted as skipped for one reason.
 * @param {string} reason
 */
export async function skipHostTests(reason) {
  const { code, stdout, stderr } = await capture(['vitest', 'list', '--project', 'host', '--json']);
  if (code !== 0) {
    console.error(stderr);
    return summarize(undefined, code);
  }
  const tests = JSON.parse(stdout.slice(stdout.indexOf('[')));
  const skips = tests.map(({ name, file }) => ({ name: `${file.replace(`${ROOT}/`, '')} > ${name}`, reason }));
  return { ...emptySummary(), skipped: skips.length, skips };
}
