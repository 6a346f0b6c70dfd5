/** The set of texts a config key takes; all config values travel as text. */
export interface ValueType {
  /** Name for documentation and forms, such as `bool` or `one of soft, hard`. */
  readonly name: string;
  /** @returns what is wrong with the text in LXD's words; undefined when it is good */
  readonly check: (value: string) => string | undefined;
}

/** Any text. */
export const anyText: ValueType = { name: 'string', check: () => undefined };

const truths: ReadonlySet<string> = new Set(['true', '1', 'yes', 'on']);
const falsehoods: ReadonlySet<string> = new Set(['false', '0', 'no', 'off']);

/** Whether a config text means true; case does not matter, anything unknown is not true. */
export function isTrue(value: string | undefined): boolean {
  return value !== undefined && truths.has(value.toLowerCase());
}

/** Whether a config text means false outright; an empty or absent one does not. */
export function isFalse(value: string | undefined): boolean {
  return value !== undefined && falsehoods.has(value.toLowerCase());
}

export const bool: ValueType = {
  name: 'bool',
  check: (value) => (isTrue(value) || isFalse(value) ? undefined : `Invalid value for a boolean ${quote(value)}`),
};

/** One of a few words. */
export function oneOf(...words: readonly string[]): ValueType {
  return {
    name: `one of ${words.join(', ')}`,
    check: (value) =>
      words.includes(value) ? undefined : `Invalid value ${quote(value)} (not one of [${words.join(' ')}])`,
  };
}

/** Text quoted as the messages do. */
export function quote(value: string): string {
  return JSON.stringify(value);
}

/** Comma-separated items, each of one type. */
export function listOf(item: ValueType): ValueType {
  return {
    name: `list of ${item.name}`,
    check: (value) => {
      for (const part of value.split(',').map((text) => text.trim())) {
        const problem = item.check(part);
        if (problem !== undefined) {
          return `Item ${quote(part)}: ${problem}`;
        }
      }
      return undefined;
    },
  };
}

/** One of the types; the message is the last one's. */
export function anyOf(...types: readonly [ValueType, ...ValueType[]]): ValueType {
  return {
    name: types.map((type) => type.name).join(' or '),
    check: (value) => {
      let problem: string | undefined;
      for (const type of types) {
        problem = type.check(value);
        if (problem === undefined) {
          return undefined;
        }
      }
      return problem;
    },
  };
}
