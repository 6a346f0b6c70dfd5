import { allConfigTables } from './config-keys.ts';
import type { ConfigKey, ConfigTable } from './config-keys/table.ts';
import { extensions } from './extensions.ts';

const intro = `# Configuration keys

Generated from the tables the server validates with (\`packages/api/src/config-keys\`); \`npm run docs -w @keelson/api\` writes
it anew. The same tables are served at \`/1.0/metadata/configuration\`.

All values are text. An empty value unsets a key. *Live* keys take effect at once, the others at the next start. *Scope*
\`local\` means that each cluster member has its own value. Sizes are whole numbers with one of \`B\`, \`kB\`, \`MB\`, \`GB\`, \`TB\`,
\`KiB\`, \`MiB\`, \`GiB\`, \`TiB\`; booleans are \`true\`, \`1\`, \`yes\`, \`on\` or their opposites.
`;

/** Text of docs/config.md. */
export function configMarkdown(): string {
  return [intro, ...allConfigTables.map(tableMarkdown)].join('\n');
}

/** Text of docs/extensions.md. */
export function extensionsMarkdown(): string {
  const rows = Object.entries(extensions).map(
    ([name, { supported, reason }]) => `| \`${name}\` | ${supported ? 'yes' : 'no'} | ${cell(reason)} |`,
  );
  return `# API extensions

Generated from \`packages/api/src/extensions.ts\`. The server lists the ones marked yes; a client may rely on what they promise.

| extension | supported | promises |
| --- | --- | --- |
${rows.join('\n')}
`;
}

function tableMarkdown({ noun, keys }: ConfigTable): string {
  const rows = keys.filter((row) => row.internal !== true).map(rowMarkdown);
  const internal = keys.filter((row) => row.internal === true).map((row) => `\`${row.key}\``);
  const note = internal.length === 0 ? '' : `\nSet by the server: ${internal.join(', ')}.\n`;
  return `## ${noun}

| key | type | default | notes | meaning |
| --- | --- | --- | --- | --- |
${rows.join('\n')}
${note}`;
}

function rowMarkdown(row: ConfigKey): string {
  const notes = [
    row.live === true ? 'live' : '',
    row.only ?? '',
    row.scope ?? '',
    row.required === true ? 'required' : '',
    row.condition ?? '',
  ];
  const cells = [
    `\`${row.key}\``,
    cell(row.type.name),
    row.default === undefined ? '' : `\`${row.default}\``,
    notes.filter((note) => note !== '').join(', '),
    cell(row.doc),
  ];
  return `| ${cells.join(' | ')} |`;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}
