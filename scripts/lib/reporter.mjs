import { writeFileSync } from 'node:fs';

/** A vitest reporter that writes what scripts/test.mjs needs, skipped tests with their reasons, to $KEELSON_TEST_SUMMARY. */
class SummaryReporter {
  onTestRunEnd(modules, unhandledErrors) {
    const path = process.env['KEELSON_TEST_SUMMARY'];
    if (!path) return;
    const files = modules.map((module) => ({
      path: module.relativeModuleId,
      ms: module.diagnostic().duration,
      ok: module.ok(),
      errors: module.errors().map((error) => error.message),
      tests: [...module.children.allTests()].map((test) => ({
        name: test.fullName,
        state: test.result().state,
        again: test.diagnostic()?.flaky === true,
        note: test.result().note ?? (test.options.mode === 'todo' ? 'to do' : undefined),
      })),
    }));
    writeFileSync(path, JSON.stringify({ files, unhandled: unhandledErrors.map((error) => error.message) }));
  }
}

// vitest loads a reporter by its default export.
// oxlint-disable-next-line import/no-default-export
export { SummaryReporter as default };
