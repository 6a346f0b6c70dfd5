import { expect, test } from 'vitest';
import { configMarkdown, extensionsMarkdown } from './config-docs.ts';

// `npm run docs -w @keelson/api` writes both files anew.
test('docs/config.md is what the tables say', async () => {
  await expect(configMarkdown()).toMatchFileSnapshot('../../../docs/config.md');
});

test('docs/extensions.md is what the table says', async () => {
  await expect(extensionsMarkdown()).toMatchFileSnapshot('../../../docs/extensions.md');
});
