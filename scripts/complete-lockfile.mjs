#!/usr/bin/env node
// Run after `npm install` has changed the lock: makes package-lock.json complete for every platform.
import { readFileSync, writeFileSync } from 'node:fs';
import { completeLock, missingOptionals, registryReferences } from './lib/lockfile.mjs';

const path = new URL('../package-lock.json', import.meta.url);
const lock = JSON.parse(readFileSync(path, 'utf8'));
const missing = missingOptionals(lock);
const references = registryReferences(lock);
if (references.length > 0) {
  console.error(`package-lock.json names a registry for ${references[0]}; set omit-lockfile-registry-resolved=true`);
  process.exit(1);
}
if (missing.length > 0 && !process.argv.includes('--check')) {
  writeFileSync(path, `${JSON.stringify(completeLock(lock), null, 2)}\n`);
}
console.log(`package-lock.json: ${missing.length} optional platform packages were missing`);
if (missing.length > 0 && process.argv.includes('--check')) {
  console.error('run: node scripts/complete-lockfile.mjs');
  process.exit(1);
}
