/**
 * @typedef {object} Summary
 * @property {number} code exit code of the runner
 * @property {number} passed
 * @property {number} failed failed tests, files that did not load, and errors outside of tests
 * @property {number} skipped
 * @property {{name: string, reason: string}[]} skips reason is empty where the name states it
 * @property {string[]} failures a line each, with its first reason
 * @property {string[]} again tests that passed only when they ran again, with what was wrong before
 * @property {{path: string, ms: number}[]} files
 */

/** @returns {Summary} */
export function emptySummary(code = 0) {
  return { code, passed: 0, failed: 0, skipped: 0, skips: [], failures: [], again: [], files: [] };
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
    const named = (test) => `${file.path} > ${test.name}`;
    const told = (test) => [named(test), ...(test.errors ?? []).slice(0, 1)].join(': ');
    const inState = (...states) => file.tests.filter(({ state }) => states.includes(state));
    const failed = inState('failed').map(told);
    if (!file.ok && failed.length === 0) failed.push(told({ name: 'the file itself', errors: file.errors }));
    summary.failures.push(...failed);
    summary.passed += inState('passed').length;
    summary.again.push(...file.tests.filter(({ again }) => again).map(told));
    summary.skips.push(
      ...inState('skipped', 'pending').map((test) => ({ name: named(test), reason: test.note ?? '' })),
    );
  }
  summary.failures.push(...(report?.unhandled ?? []).map((message) => `outside of tests: ${message}`));
  if (code !== 0 && summary.failures.length === 0)
    summary.failures.push(`the test runner ended with code ${code} and named no failed test`);
  summary.failed = summary.failures.length;
  summary.skipped = summary.skips.length;
  return summary;
}

/**
 * Skipped tests, a line for those of a suite that state one reason.
 * @param {readonly Summary[]} summaries
 */
export function skippedLines(summaries) {
  const suites = new Map();
  for (const { name, reason } of summaries.flatMap(({ skips }) => skips)) {
    const line = reason === '' ? name : `${name}: ${reason}`;
    const suite = /^.*?\(skipped: .*?\)(?= > )/u.exec(name)?.[0] ?? line;
    suites.set(suite, [...(suites.get(suite) ?? []), line]);
  }
  return [...suites].map(([suite, [line, ...others]]) =>
    others.length === 0 ? `skipped: ${line}` : `skipped: ${others.length + 1} tests of ${suite}`,
  );
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
