import { allConfigTables } from './config-keys.ts';
import type { ConfigKey, ConfigTable } from './config-keys/table.ts';
import { extensions } from './extensions.ts';
import { allRoutes, type RouteDefinition } from './routes.ts';

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

/** Text of docs/rest-api.md. */
export function routesMarkdown(): string {
  const nouns = [...new Set(allRoutes.map((route) => nounOf(route)))];
  const parts = nouns.map((noun) => {
    const rows = allRoutes.filter((route) => nounOf(route) === noun).map(routeMarkdown);
    return `## ${noun}\n\n| endpoint | answers | access | request | metadata | extension |\n| --- | --- | --- | --- | --- | --- |\n${rows.join('\n')}\n`;
  });
  return [routesIntro, ...parts].join('\n');
}

const routesIntro = `# REST API

Generated from \`packages/api/src/routes\`. The whole description, with every field, is the OpenAPI 3.1 document the server
answers at \`/1.0/openapi.json\`. A trailing slash is ignored, and a path without \`/1.0\` means the current version.
\`/1.0/containers\` and \`/1.0/virtual-machines\` are the same as \`/1.0/instances\`, limited to one type.

*sync* answers at once, *operation* with 202 and a background operation, *raw* with bytes. Access: *untrusted* is anybody,
*user* any trusted certificate within its projects, *admin* the full administrator.
`;

function nounOf(route: RouteDefinition): string {
  return route.id.split('.')[0] ?? '';
}

function routeMarkdown(route: RouteDefinition): string {
  const cells = [
    `\`${route.method} ${route.path}\``,
    route.also === undefined ? route.kind : `${route.kind} or ${route.also}`,
    route.access,
    [schemaName(route.body), route.rawBody === true ? 'bytes' : ''].filter((part) => part !== '').join(' or '),
    route.kind === 'operation' ? 'Operation' : schemaName(route.response),
    route.extension === undefined ? '' : `\`${route.extension}\``,
  ];
  return `| ${cells.join(' | ')} |`;
}

interface Named {
  readonly $id?: string;
  readonly type?: string;
  readonly items?: Named;
  readonly anyOf?: readonly Named[];
  readonly patternProperties?: Readonly<Record<string, Named>>;
}

function schemaName(schema: Named | undefined): string {
  if (schema === undefined) {
    return '';
  }
  if (schema.anyOf !== undefined) {
    return schema.anyOf.map(schemaName).join(' or ');
  }
  const mapped = Object.values(schema.patternProperties ?? {})[0];
  if (mapped !== undefined) {
    return `map of ${schemaName(mapped)}`;
  }
  return (
    schema.$id ?? (schema.items === undefined ? (schema.type ?? 'anything') : `list of ${schemaName(schema.items)}`)
  );
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
