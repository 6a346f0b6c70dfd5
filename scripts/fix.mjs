#!/usr/bin/env node
// Formats and applies every safe lint fix; arguments name the paths, default all.
import { pass } from './lib/process.mjs';

const paths = process.argv.slice(2);
const codes = [
  await pass(['oxlint', '--type-aware', '--fix', ...paths]),
  await pass(['biome', 'format', '--write', ...(paths.length > 0 ? paths : ['.'])]),
];
process.exit(Math.max(...codes));
