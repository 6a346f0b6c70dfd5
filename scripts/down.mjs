#!/usr/bin/env node
// Stops the daemon; containers go on running and the next daemon finds them.
import { stateFolder, stopDaemon } from './lib/daemon-process.mjs';
import { Steps } from './lib/progress.mjs';

try {
  const folder = stateFolder();
  await new Steps().run(`daemon keelsond on ${folder}`, () => stopDaemon(folder));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
