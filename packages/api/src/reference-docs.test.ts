import { expect, test } from 'vitest';
import { configMarkdown, extensionsMarkdown, routesMarkdown } from './reference-docs.ts';

// `npm run docs -w @keelson/api` writes the files anew.
test('docs/config.md is what the tables say', async () => {
  await expect(configMarkdown()).toMatchFileSnapshot('../../../docs/config.md');
});

test('docs/extensions.md is what the table says', async () => {
  await expect(extensionsMarkdown()).toMatchFileSnapshot('../../../docs/extensions.md');
});

test('docs/rest-api.md is what the routes say', async () => {
  await expect(routesMarkdown()).toMatchFileSnapshot('../../../docs/rest-api.md');
});
