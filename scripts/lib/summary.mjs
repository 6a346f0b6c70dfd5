/**
 * @typedef {object} Summary
 * @property {number} code exit code of the runner
 * @property {number} passed
 * @property {number} failed failed tests, files that did not load, and errors outside of tests
 * @property {number} skipped
 * @property {{name: string, reason: string}[]} skips reason is empty where the name states it
 * @property {string[]} again tests that passed only when they ran again
 * @property {{path: string, ms: number}[]} files
 */

/** @returns {Summary} */
export function emptySummary(code = 0) {
  return { code, passed: 0, failed: 0, skipped: 0, skips: [], again: [], files: [] };
}

/**
 * Counts what the reporter wrote; a runner that failed without a failed test counts as one failure.
 * @param {any} report
 * @param {number} code
 * @returns {Summary}
 */
export function summarize(report, code) {
  const summary = emptySummary(code);
  for (const file of report?.files ?? []) {
    summary.files.push({ path: file.path, ms: file.ms });
    const failedTests = file.tests.filter((test) => test.state === 'failed').length;
    summary.failed += failedTests;
    if (!file.ok && failedTests === 0) summary.failed += 1;
    summary.passed += file.tests.filter((test) => test.state === 'passed').length;
    for (const test of file.tests.filter(({ again }) => again)) summary.again.push(`${file.path} > ${test.name}`);
    for (const test of file.tests.filter(({ state }) => state === 'skipped' || state === 'pending')) {
      summary.skipped += 1;
      summary.skips.push({ name: `${file.path} > ${test.name}`, reason: test.note ?? '' });
    }
  }
  summary.failed += report?.unhandled?.length ?? 0;
  if (code !== 0 && summary.failed === 0) summary.failed = 1;
  return summary;
}

/** @param {readonly Summary[]} summaries @param {number} failedStages */
export function finalLine(summaries, failedStages) {
  const sum = (key) => summaries.reduce((total, summary) => total + summary[key], 0);
  return `${sum('passed')} passed, ${sum('failed') + failedStages} failed, ${sum('skipped')} skipped`;
}

/** @param {readonly Summary[]} summaries */
export function slowestFiles(summaries, count = 10) {
  return summaries
    .flatMap(({ files }) => files)
    .sort((a, b) => b.ms - a.ms)
    .slice(0, count)
    .map(({ path, ms }) => `  ${(ms / 1000).toFixed(1).padStart(6)} s  ${path}`);
}
