import type { ValueType } from '../values/value-type.ts';

/** Instance type a key or a device option is limited to. */
export type InstanceKind = 'container' | 'virtual-machine';

/** One config key, or a family of keys. */
export interface ConfigKey {
  /** As users write it; `*` stands for one or more characters, as in `user.*` or `volatile.*.hwaddr`. */
  readonly key: string;
  readonly type: ValueType;
  /** What the key does, in one line. */
  readonly doc: string;
  /** Value in effect while the key is not set, as users would write it. */
  readonly default?: string;
  /** Takes effect without a restart of the instance, pool or network it is set on. */
  readonly live?: true;
  /** Instance type that has the key; absent for both. */
  readonly only?: InstanceKind;
  /** `local` differs between cluster members. */
  readonly scope?: 'global' | 'local';
  /** Content type or other circumstance the key is limited to, for documentation. */
  readonly condition?: string;
  /** Must be set, and not to an empty text. */
  readonly required?: true;
  /** An empty text is a value of its own, checked like any other; otherwise it means unset. */
  readonly checkEmpty?: true;
  /** Set by the server; users only read it. */
  readonly internal?: true;
}

/** What a config is checked for. */
export interface ConfigContext {
  /** Name of the object, for messages. */
  readonly name?: string;
  /** Limits keys to those of this instance type; both when absent, as in a profile. */
  readonly instanceType?: InstanceKind;
  /** Keys that start so are refused with this message, as `volatile.` is in a profile. */
  readonly refused?: Readonly<Record<string, string>>;
}

/** The keys of one kind of object, with the words its errors use. */
export interface ConfigTable {
  /** For documentation, such as `instance` or `storage-dir`. */
  readonly noun: string;
  readonly keys: readonly ConfigKey[];
  readonly unknown: (key: string, value: string, context: ConfigContext) => string;
  readonly invalid: (key: string, value: string, problem: string, context: ConfigContext) => string;
}

export interface ConfigProblem {
  readonly key: string;
  /** Whole sentence for the user. */
  readonly message: string;
}

/** Shorthand for a row; keeps the key's literal type for `ConfigOf`. */
export function key<const K extends string>(
  name: K,
  type: ValueType,
  doc: string,
  rest: Omit<ConfigKey, 'key' | 'type' | 'doc'> = {},
): ConfigKey & { readonly key: K } {
  return { key: name, type, doc, ...rest };
}

type Written<K extends string> = K extends `${infer Head}*${infer Tail}` ? `${Head}${string}${Tail}` : K;

/** Config map that completes the keys of a table's rows; other keys are checked by the server. */
export type ConfigOf<Row extends { readonly key: string }> = Record<string, string> & {
  [K in Written<Row['key']>]?: string;
};

/** Row of a key by the name a user wrote: the exact one, else the first family it belongs to. */
export function findKey(table: ConfigTable, name: string): ConfigKey | undefined {
  return table.keys.find((row) => row.key === name) ?? table.keys.find((row) => matches(row.key, name));
}

function matches(pattern: string, name: string): boolean {
  const star = pattern.indexOf('*');
  if (star === -1) {
    return false;
  }
  const head = pattern.slice(0, star);
  const tail = pattern.slice(star + 1);
  return name.length > head.length + tail.length && name.startsWith(head) && name.endsWith(tail);
}

/**
 * Checks every key and value of a config. Problems come sorted by key, so that the first is always the same.
 * An empty value means unset and is good everywhere but where a row says otherwise.
 */
export function validateConfig(
  table: ConfigTable,
  config: Readonly<Record<string, string>>,
  context: ConfigContext = {},
): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  for (const name of Object.keys(config).sort()) {
    const message = problemOf(table, name, config[name] ?? '', context);
    if (message !== undefined) {
      problems.push({ key: name, message });
    }
  }
  for (const row of table.keys) {
    if (row.required === true && (config[row.key] ?? '') === '') {
      problems.push({ key: row.key, message: table.invalid(row.key, '', 'Required value', context) });
    }
  }
  return problems;
}

function problemOf(table: ConfigTable, name: string, value: string, context: ConfigContext): string | undefined {
  for (const [start, message] of Object.entries(context.refused ?? {})) {
    if (name.startsWith(start)) {
      return message;
    }
  }
  const row = findKey(table, name);
  const other = row?.only !== undefined && context.instanceType !== undefined && row.only !== context.instanceType;
  if (row === undefined || other) {
    return table.unknown(name, value, context);
  }
  if (value === '' && row.checkEmpty !== true) {
    return undefined;
  }
  const problem = row.type.check(value);
  return problem === undefined ? undefined : table.invalid(name, value, problem, context);
}

/** Config with the defaults of the table's plain keys under what is set. */
export function withDefaults(table: ConfigTable, config: Readonly<Record<string, string>>): Record<string, string> {
  const defaults = table.keys.flatMap((row) =>
    row.default === undefined || row.key.includes('*') ? [] : [[row.key, row.default] as const],
  );
  return { ...Object.fromEntries(defaults), ...config };
}
