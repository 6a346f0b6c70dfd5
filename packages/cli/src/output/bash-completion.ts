import type { Command } from '../command.ts';

/** What to ask the client for, to complete an argument of that name. */
const NAMES: Readonly<Record<string, string>> = {
  instance: 'list -c n -f csv',
  image: 'image alias list -f csv',
  pool: 'storage list -f csv',
  profile: 'profile list -f csv',
  network: 'network list -f csv',
  project: 'project list -f csv',
};

/** Nouns whose commands call their own object just `name`. */
const OWN: Readonly<Record<string, string>> = {
  ...NAMES,
  config: NAMES['instance'] ?? '',
  storage: NAMES['pool'] ?? '',
};

/** A completion script for bash, made from the commands' data. */
export function bashCompletion(commands: readonly Command[]): string {
  const groups = new Map<string, Set<string>>();
  for (const { path } of commands) {
    path.forEach((word, depth) => {
      const parent = path.slice(0, depth).join(' ');
      groups.set(parent, (groups.get(parent) ?? new Set()).add(word));
    });
  }
  const verbs = [...groups].map(([parent, words]) => `    '${parent}') words='${[...words].join(' ')}' ;;`);
  const leaves = commands.map((command) => `    '${command.path.join(' ')}') ${leafOf(command)} ;;`);
  return `# bash completion of keelson
_keelson_names() { keelson -q "$@" 2>/dev/null | cut -d, -f1; }
_keelson() {
  local current=\${COMP_WORDS[COMP_CWORD]} path='' word words='' options='' names='' position=0 index
  for ((index = 1; index < COMP_CWORD; index++)); do
    word=\${COMP_WORDS[index]}
    [[ $word == -* ]] && continue
    if _keelson_group "$path" && [[ " $words " == *" $word "* ]]; then path=\${path:+$path }$word; else position=$((position + 1)); fi
  done
  words=''
  if _keelson_group "$path"; then
    [[ -z $path ]] && options='--project --endpoint --quiet --help --version'
  else
    _keelson_leaf "$path" "$position"
  fi
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  elif [[ -n $names ]]; then
    COMPREPLY=($(compgen -W "$(_keelson_names $names)" -- "$current"))
  fi
}
_keelson_group() {
  words=''
  case "$1" in
${verbs.join('\n')}
    *) return 1 ;;
  esac
}
_keelson_leaf() {
  case "$1" in
${leaves.join('\n')}
  esac
}
complete -o default -F _keelson keelson
`;
}

/** Assignments of options, and of the names to list at each position. */
function leafOf({ path, args = [], options = [] }: Command): string {
  const all = ['--format', '--help', ...options.map(({ name }) => `--${name}`)];
  const asked = args.flatMap(({ name, rest }, index) => {
    const ask = NAMES[name] ?? (name === 'name' ? OWN[path[0]] : undefined);
    return ask === undefined ? [] : [`${index}${rest ? '|*' : ''}) names='${ask}' ;;`];
  });
  const names = asked.length === 0 ? '' : ` case "$2" in ${asked.join(' ')} esac;`;
  return `options='${all.join(' ')}';${names} :`;
}
