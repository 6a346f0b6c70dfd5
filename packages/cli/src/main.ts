#!/usr/bin/env node
import * as nodeModule from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { VERSION } from './version.ts';

if (process.argv.length === 3 && process.argv[2] === '--version') {
  process.stdout.write(`${VERSION}\n`);
} else {
  // Everything else is loaded after the cache is on, so that later starts skip compiling it.
  nodeModule.enableCompileCache(join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'keelson', 'compile'));
  const { main } = await import('./cli.ts');
  await main();
}
