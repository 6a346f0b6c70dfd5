import type { InstanceFull } from '@keelson/api';

/** Tells the instances that every word holds for. `key=value` compares without regard to case; other words are parts of names. */
export function matcherOf(words: readonly string[]): (instance: InstanceFull) => boolean {
  const tests = words.map((word) => {
    const at = word.indexOf('=');
    if (at <= 0) return (instance: InstanceFull) => instance.name.includes(word);
    const [key, wanted] = [word.slice(0, at), word.slice(at + 1).toLowerCase()];
    return (instance: InstanceFull) => valuesOf(instance, key).some((value) => value.toLowerCase() === wanted);
  });
  return (instance) => tests.every((test) => test(instance));
}

function valuesOf(instance: InstanceFull, key: string): readonly string[] {
  switch (key) {
    case 'name':
      return [instance.name];
    case 'status':
    case 'state':
      return [instance.status];
    case 'type':
      return [instance.type];
    case 'architecture':
      return [instance.architecture ?? ''];
    case 'profile':
      return instance.profiles ?? [];
    case 'ephemeral':
      return [String(instance.ephemeral)];
    default: {
      const value = instance.expanded_config?.[key] ?? instance.config?.[key];
      return value === undefined ? [] : [value];
    }
  }
}
