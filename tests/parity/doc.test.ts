import { expect, test } from 'vitest';
import { names } from './case.ts';
import { cases } from './cases.ts';
import { differences } from './differences.ts';
import { stepDifferences } from './walk/differences.ts';
import { rules } from './walk/rules.ts';
import { steps } from './walk/steps.ts';

const intro = `# Differences from LXD

Generated from \`tests/parity/differences.ts\` and \`tests/parity/walk\`; \`npx vitest run --project host tests/parity/doc.test.ts --update\` writes it anew.

The parity test (\`tests/parity\`) sends the same requests to this server and to LXD 5.0.2 on one host and compares status, error code,
how an operation ended, and the structure of every record. They agree in all but these, which differ on purpose.

| case | request | LXD | here | why |
| --- | --- | --- | --- | --- |
`;

const walkIntro = `
## What users of lxc see of storage

\`tests/parity/walk.test.ts\` types ${steps.length} lines of \`lxc storage …\`, and of what else touches storage, at both servers
(\`tests/parity/walk/steps.ts\`), and compares output, errors, exit code, lifecycle events and operations. Everywhere:

| of | why it differs here |
| --- | --- |
`;

const stepIntro = `
At single steps:

| step | LXD | here | why |
| --- | --- | --- | --- |
`;

/** Text for a cell of a table. */
function cell(text: string, around = '`'): string {
  const line = text.replaceAll('\n', ' ⏎ ').replaceAll('|', '\\|');
  return line === '' ? '' : `${around}${line}${around}`;
}

function ruleRows(): string[] {
  return rules.map(({ what, reason }) => `| ${cell(what, '')} | ${cell(reason, '')} |\n`);
}

function stepRows(): string[] {
  return Object.entries(stepDifferences).map(([step, { reason, says }]) => {
    const [lxd, ours] = says ?? ['', ''];
    const succeeds = (text: string): string => (says !== undefined && text === '' ? 'succeeds' : cell(text));
    return `| ${cell(step)} | ${succeeds(lxd)} | ${succeeds(ours)} | ${cell(reason, '')} |\n`;
  });
}

function rows(): string[] {
  const requests = new Map(cases.map((one) => [one.name, `${one.method} ${one.path(names)}`]));
  return Object.entries(differences).map(([name, { reason, status }]) => {
    const [lxd, ours] = status ?? ['', ''];
    return `| ${name} | \`${requests.get(name)?.replaceAll('|', '\\|')}\` | ${lxd} | ${ours} | ${reason} |\n`;
  });
}

test('docs/parity.md is what the table says', async () => {
  const walk = walkIntro + ruleRows().join('') + stepIntro + stepRows().join('');
  await expect(intro + rows().join('') + walk).toMatchFileSnapshot('../../docs/parity.md');
});
