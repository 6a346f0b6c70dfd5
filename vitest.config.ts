import { defineConfig } from 'vitest/config';

// Workspace packages are read from their sources: tests need no build.
const conditions = ['source', 'node', 'import', 'module', 'default'];
const resolve = { conditions };
/** How much slower than others this host is. */
const patience = Math.max(1, Number(process.env['KEELSON_TEST_PATIENCE'] ?? 1));
const ssr = { resolve: { conditions, externalConditions: conditions } };

export default defineConfig({
  test: {
    projects: [
      {
        resolve,
        ssr,
        test: {
          name: 'unit',
          include: ['packages/**/*.test.ts', 'scripts/**/*.test.mjs'],
          exclude: ['**/node_modules/**', '**/dist/**'],
          environment: 'node',
          // A busy machine is no failure; a test that hangs is.
          testTimeout: 30_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        resolve,
        ssr,
        test: {
          name: 'host',
          include: ['tests/**/*.test.ts'],
          environment: 'node',
          pool: 'forks',
          maxWorkers: 2,
          testTimeout: 120_000 * patience,
          hookTimeout: 180_000 * patience,
          // Real hosts stumble now and then; what passed only the second time is named in the summary.
          retry: process.env['CI'] ? 1 : 0,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
