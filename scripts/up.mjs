#!/usr/bin/env node
// From a fresh machine to a running container. Every step looks first and does nothing when there is nothing to do.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { apiOf, ensureDaemon, stateFolder } from './lib/daemon-process.mjs';
import * as first from './lib/first-container.mjs';
import { describeMissing, missingFeatures } from './lib/host-checks.mjs';
import { probeKernel, readHostFacts } from './lib/host-facts.mjs';
import { ensureModules } from './lib/npm-step.mjs';
import { RUNTIME, installMissing } from './lib/packages.mjs';
import { ROOT, capture, must } from './lib/process.mjs';
import { Steps } from './lib/progress.mjs';
import { planSubid } from './lib/subid.mjs';

const steps = new Steps();
const folder = stateFolder();

function demand(missing) {
  if (missing.length === 0) return 'this machine can run containers';
  throw new Error(`This machine cannot run containers. It lacks:\n${describeMissing(missing)}`);
}

async function subordinateIds() {
  let changed = 0;
  for (const path of ['/etc/subuid', '/etc/subgid']) {
    const wanted = planSubid(readOr(path, ''));
    if (wanted === undefined) continue;
    writeFileSync(`${path}.keelson`, wanted, { mode: 0o644 });
    renameSync(`${path}.keelson`, path);
    changed += 1;
  }
  return changed === 0 ? 'already there' : 'added a range for root';
}

function readOr(path, otherwise) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return otherwise;
  }
}

async function socketGroup() {
  if ((await capture(['getent', 'group', 'keelson'])).code === 0) return 'already there';
  await must(['groupadd', '--system', 'keelson']);
  return 'created';
}

async function setUp() {
  await steps.run('check this machine', async () => demand(missingFeatures(readHostFacts())));
  await steps.run('Debian packages', (say) => installMissing(RUNTIME, say));
  await steps.run('check the kernel', async () => demand(await probeKernel()));
  await steps.run('subordinate ids', subordinateIds);
  await steps.run('group keelson', socketGroup);
  await steps.run('npm packages', ensureModules);
  const { build } = await import('./build.mjs');
  await build(steps);
  await steps.run('daemon keelsond', () => {
    mkdirSync(folder, { recursive: true, mode: 0o711 });
    return ensureDaemon(folder);
  });
}

async function launchFirst() {
  const api = apiOf(folder);
  await steps.run('storage pool default', () => first.ensurePool(api));
  await steps.run('network keelbr0', () => first.ensureBridge(api));
  await steps.run('profile default', () => first.ensureProfile(api));
  let alias = '';
  const options = { scratch: folder, server: process.env['KEELSON_IMAGE_SERVER'] };
  await steps.run('image', async (say) => {
    const image = await first.ensureImage(api, options, say);
    alias = image.alias;
    return `${alias} ${image.word}`;
  });
  await steps.run('container first', () => first.ensureFirst(api, alias));
  const address = await steps.run('address of first', () => first.waitForAddress(api));
  const script = '. /etc/os-release; echo "$PRETTY_NAME, up since $(uptime -s)"';
  const says = await steps.run('command in first', () => first.runInFirst(api, ['sh', '-c', script]));
  return { address, says, alias };
}

function next({ address, says, alias }) {
  const state = folder === '/var/lib/keelson' ? '' : `\n  export KEELSON_DIR=${folder}`;
  console.log(`
Container first runs at ${address} and says: ${says}

What to type next:
  export PATH=${join(ROOT, 'bin')}:$PATH${state}
  keelson shell first             a shell inside
  keelson list                    what is running
  keelson launch ${alias} second
  LXD_DIR=${folder} lxc list      the LXD client, if it is installed
  npm run down                    stops the daemon; containers go on running`);
}

try {
  await setUp();
  next(await launchFirst());
} catch (error) {
  console.error(`\n${steps.timings.at(-1)?.name ?? 'up'}: ${error.message}`);
  process.exitCode = 1;
}
