#!/usr/bin/env node
// Every test there is, with its own set-up. The last line counts them; the exit code is 0 only when nothing failed.
import { describeMissing, missingFeatures } from './lib/host-checks.mjs';
import { probeKernel, readHostFacts } from './lib/host-facts.mjs';
import { warnOfLeftovers } from './lib/leftovers.mjs';
import { ensureModules } from './lib/npm-step.mjs';
import { RUNTIME, TESTS, installAvailable, installMissing } from './lib/packages.mjs';
import { Steps } from './lib/progress.mjs';
import { emptySummary, finalLine, skippedLines, slowestFiles } from './lib/summary.mjs';

const steps = new Steps();
const failedStages = [];

/** Runs a stage; a failure is told, counted, and does not keep the rest from running. */
async function guard(name, work) {
  try {
    return await work();
  } catch (error) {
    console.error(error.message);
    failedStages.push(name);
    return undefined;
  }
}

/** What keeps the host tests from running; installs the Debian packages where it may. */
async function prepareHost() {
  const missing = missingFeatures(readHostFacts());
  if (missing.length > 0) return missing;
  await guard('Debian packages', () => steps.run('Debian packages', (say) => installMissing(RUNTIME, say)));
  await guard('packages of the tests', () => steps.run('packages of the tests', (say) => installAvailable(TESTS, say)));
  return probeKernel();
}

async function runHostTests(missing) {
  const { hostTests, skipHostTests } = await import('./lib/suites.mjs');
  if (missing.length === 0) {
    warnOfLeftovers();
    return hostTests(process.argv.slice(2));
  }
  console.log(
    `This machine cannot run containers, so the tests on a real host are skipped:\n${describeMissing(missing)}`,
  );
  return skipHostTests(`needs ${missing.map(({ what }) => what).join(', ')}`);
}

function report(summaries, started) {
  console.log('\nStages:');
  for (const { name, ms } of steps.timings) console.log(`  ${(ms / 1000).toFixed(1).padStart(6)} s  ${name}`);
  console.log(`  ${((Date.now() - started) / 1000).toFixed(1).padStart(6)} s  in all`);
  console.log('Slowest test files:');
  for (const line of slowestFiles(summaries)) console.log(line);
  for (const line of skippedLines(summaries)) console.log(line);
  for (const line of summaries.flatMap(({ again }) => again)) console.log(`passed only when it ran again: ${line}`);
  for (const line of summaries.flatMap(({ failures }) => failures)) console.log(`FAILED: ${line}`);
  if (failedStages.length > 0) console.log(`Failed stages: ${failedStages.join(', ')}`);
}

async function main() {
  const started = Date.now();
  const missing = await prepareHost();
  if ((await guard('npm packages', () => steps.run('npm packages', ensureModules))) === undefined)
    return [emptySummary(1)];
  const { check } = await import('./check.mjs');
  const { build } = await import('./build.mjs');
  const checked = await check();
  steps.timings.push(...checked.timings);
  failedStages.push(...checked.failed);
  await guard('build', () => build(steps));
  const start = Date.now();
  const host = await runHostTests(missing);
  steps.timings.push({ name: 'host tests', ms: Date.now() - start });
  const summaries = [checked.tests, host];
  report(summaries, started);
  return summaries;
}

const summaries = await main();
console.log(`\n${finalLine(summaries, failedStages.length)}`);
process.exitCode = failedStages.length > 0 || summaries.some(({ code, failed }) => code !== 0 || failed > 0) ? 1 : 0;
