import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import type { StorageDriverInfo } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { StorageDrivers } from '../../packages/daemon/src/drivers/storage/registry.ts';

const PAGE = fileURLToPath(new URL('../../docs/storage.md', import.meta.url));

const ROWS: readonly [string, (info: StorageDriverInfo) => boolean][] = [
  ['clones of images without a copy', ({ capabilities }) => capabilities.cheapClone],
  ['snapshots without a copy', ({ capabilities }) => capabilities.cheapSnapshot],
  ['quotas that hold', ({ capabilities }) => capabilities.quota],
  ['quotas can shrink', ({ capabilities }) => capabilities.shrink],
  ['block volumes', ({ capabilities }) => capabilities.blockVolumes],
  ['native send and receive', ({ capabilities }) => capabilities.optimizedTransfer],
  ['on other machines', ({ remote }) => remote],
];

// KEELSON_UPDATE_DOCS=1 writes the table anew.
it('docs/storage.md has the table the drivers give', async () => {
  await using drivers = new StorageDrivers(silentLog);
  const infos = await Promise.all(drivers.all().map((driver) => driver.probe()));
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const table = [
    line(['', ...infos.map(({ name }) => `\`${name}\``)]),
    line(['---', ...infos.map(() => '---')]),
    ...ROWS.map(([title, tell]) => line([title, ...infos.map((info) => (tell(info) ? 'yes' : 'no'))])),
  ].join('\n');
  const page = readFileSync(PAGE, 'utf8');
  const wanted = page.replace(
    /<!-- capabilities -->[\s\S]*<!-- end of capabilities -->/,
    `<!-- capabilities -->\n${table}\n<!-- end of capabilities -->`,
  );
  if (process.env['KEELSON_UPDATE_DOCS'] === '1') writeFileSync(PAGE, wanted);
  else expect(page).toBe(wanted);
});
