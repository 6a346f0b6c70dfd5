import { expect, test } from 'vitest';
import { names } from './case.ts';
import { cases } from './cases.ts';
import { differences } from './differences.ts';

const intro = `# Differences from LXD

Generated from \`tests/parity/differences.ts\`; \`npx vitest run --project host tests/parity/doc.test.ts --update\` writes it anew.

The parity test (\`tests/parity\`) sends the same requests to this server and to LXD 5.0.2 on one host and compares status, error code,
how an operation ended, and the structure of every record. They agree in all but these, which differ on purpose.

| case | request | LXD | here | why |
| --- | --- | --- | --- | --- |
`;

function rows(): string[] {
  const requests = new Map(cases.map((one) => [one.name, `${one.method} ${one.path(names)}`]));
  return Object.entries(differences).map(([name, { reason, status }]) => {
    const [lxd, ours] = status ?? ['', ''];
    return `| ${name} | \`${requests.get(name)?.replaceAll('|', '\\|')}\` | ${lxd} | ${ours} | ${reason} |\n`;
  });
}

test('docs/parity.md is what the table says', async () => {
  await expect(intro + rows().join('')).toMatchFileSnapshot('../../docs/parity.md');
});
