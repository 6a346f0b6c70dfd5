import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, must, systemEnv } from './process.mjs';

/**
 * Does the hidden lock that npm leaves in node_modules hold every package of the lock that this machine needs?
 * @param {{packages: Record<string, any>}} lock
 * @param {{packages: Record<string, any>} | undefined} installed
 */
export function inStep(lock, installed) {
  if (!installed) return false;
  return Object.entries(lock.packages).every(([path, entry]) => {
    if (!path.includes('node_modules/') || entry.link) return true;
    const have = installed.packages[path];
    return have ? have.version === entry.version : entry.optional === true;
  });
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
  } catch {
    return undefined;
  }
}

/** Runs `npm ci` when node_modules is not in step with the lock. */
export async function ensureModules() {
  const lock = readJson('package-lock.json');
  if (!lock) throw new Error('package-lock.json is not there or is damaged: check the repository out again');
  if (inStep(lock, readJson('node_modules/.package-lock.json'))) return 'already there';
  await must(['npm', 'ci', '--no-audit', '--no-fund'], { env: systemEnv() });
  return 'installed';
}
