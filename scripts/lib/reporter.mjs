import { writeFileSync } from 'node:fs';

/** One line: what was wrong, and where. */
function describeError(error) {
  const place = error.stacks?.find(({ file }) => !file.includes('node_modules'));
  const where = place === undefined ? '' : ` (${place.file.replace(`${process.cwd()}/`, '')}:${place.line})`;
  return `${String(error.message).replaceAll(/\s+/gu, ' ').slice(0, 300)}${where}`;
}

/** A vitest reporter that writes what scripts/test.mjs needs, with the reasons of failures and skips, to $KEELSON_TEST_SUMMARY. */
class SummaryReporter {
  onTestRunEnd(modules, unhandledErrors) {
    const path = process.env['KEELSON_TEST_SUMMARY'];
    if (!path) return;
    const files = modules.map((module) => ({
      path: module.relativeModuleId,
      ms: module.diagnostic().duration,
      ok: module.ok(),
      errors: module.errors().map(describeError),
      tests: [...module.children.allTests()].map((test) => ({
        name: test.fullName,
        state: test.result().state,
        again: test.diagnostic()?.flaky === true,
        errors: (test.result().errors ?? []).map(describeError),
        note: test.result().note ?? (test.options.mode === 'todo' ? 'to do' : undefined),
      })),
    }));
    writeFileSync(path, JSON.stringify({ files, unhandled: unhandledErrors.map(describeError) }));
  }
}

// vitest loads a reporter by its default export.
// oxlint-disable-next-line import/no-default-export
export { SummaryReporter as default };
