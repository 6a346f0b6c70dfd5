import { renameSync, writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';

// Preloaded into the daemon (so plain JavaScript, which loads no compiler there): SIGUSR2 starts measuring how late
// its event loop is, the next one writes the 99th percentile in milliseconds to the file that BENCH_LOOP_DELAY names.
// In between it costs nothing.
const RESOLUTION = 5;
const file = process.env['BENCH_LOOP_DELAY'];
let delays;

process.on('SIGUSR2', () => {
  if (delays === undefined) {
    delays = monitorEventLoopDelay({ resolution: RESOLUTION });
    delays.enable();
    return;
  }
  delays.disable();
  // The timer's own interval is part of what is counted.
  writeFileSync(`${file}.new`, String(Math.max(0, delays.percentile(99) / 1e6 - RESOLUTION)));
  renameSync(`${file}.new`, file);
  delays = undefined;
});
