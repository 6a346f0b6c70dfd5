import type { Argument, Command, Option } from '../command.ts';
import { FORMATS } from './format.ts';

const INTRODUCTION = `# The command line

Made by \`keelson --help-markdown\` from the commands themselves.

\`\`\`
keelson [--project NAME] [--endpoint ADDRESS] [--quiet] COMMAND …
\`\`\`

Names may carry a remote: \`office:web\` is the instance \`web\` of the server that \`keelson remote add office …\` made known.
Without one they mean the server of \`--endpoint\`, else the current remote of \`keelson remote switch\`, at first this
machine's.

| for every command | |
| --- | --- |
| \`--project NAME\` | project to work in; else that of \`keelson project switch\`, else \`default\` |
| \`--endpoint ADDRESS\` | \`unix:/path\` or \`https://host:port\`, instead of a remote |
| \`-q\`, \`--quiet\` | neither progress nor notes |
| \`-f\`, \`--format FORM\` | ${FORMATS.map((form) => `\`${form}\``).join(', ')}; lists default to \`table\`, single objects to \`yaml\` |

| variable | |
| --- | --- |
| \`KEELSON_DIR\` | state folder of the server, where its \`unix.socket\` is; default \`/var/lib/keelson\` |
| \`KEELSON_CONF\` | folder with this client's remotes and certificate; default \`~/.config/keelson\` |
| \`VISUAL\`, \`EDITOR\` | editor of the \`edit\` commands; when standard input is no terminal they read it instead |

| exit code | |
| --- | --- |
| 0 | done |
| 1 | it failed; standard error says what |
| 2 | wrong use |
| 126, 127 | \`exec\`: the command cannot be run, is not there |
| 130 | ended by Ctrl-C |
| others | \`exec\`, \`shell\`: the exit code of the command |
`;

/** Reference of every command, as docs/cli.md has it. */
export function markdown(commands: readonly Command[]): string {
  const groups = Map.groupBy(commands, ({ path }) => (path.length === 1 ? 'instances and others' : path[0]));
  const parts = [...groups].map(([name, members]) => `## ${name}\n\n${members.map(section).join('\n')}`);
  return `${INTRODUCTION}\n${parts.join('\n')}`;
}

function section(command: Command): string {
  const { path, summary, args = [], options = [], examples = [] } = command;
  const usage = ['keelson', ...path, ...args.map(usageOf)].join(' ');
  const rows = [
    ...args.map((arg) => `| \`${usageOf(arg)}\` | ${cell(arg.summary)} |`),
    ...options.map(
      (option) => `| ${flagOf(option)} | ${cell(option.summary)}${option.many ? ' (may be repeated)' : ''} |`,
    ),
  ];
  const table = rows.length === 0 ? '' : `\n| | |\n| --- | --- |\n${rows.join('\n')}\n`;
  const shown = examples.length === 0 ? '' : `\n\`\`\`\n${examples.join('\n')}\n\`\`\`\n`;
  return `### \`${usage}\`\n\n${summary}.\n${table}${shown}`;
}

function usageOf({ name, optional, rest }: Argument): string {
  const text = `${name.toUpperCase()}${rest ? '…' : ''}`;
  return optional ? `[${text}]` : text;
}

function flagOf({ name, short, value }: Option): string {
  const long = `\`--${name}${value === undefined ? '' : ` ${value.toUpperCase()}`}\``;
  return short === undefined ? long : `\`-${short}\`, ${long}`;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}
