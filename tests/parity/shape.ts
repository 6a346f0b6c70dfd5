/** Fields whose keys are data, not structure: compared as one kind of value. */
const MAPS: ReadonlySet<string> = new Set([
  'config',
  'expanded_config',
  'devices',
  'expanded_devices',
  'properties',
  'environment',
  'fds',
  'kernel_features',
  'lxc_features',
  'network',
  'disk',
  'templates',
  'resources',
]);

/**
 * The structure of a JSON value as text: field names and types, no values. Null stands for an empty list or map, as
 * Go writes either; elements of a list are merged.
 */
export function shapeOf(value: unknown, field = ''): string {
  if (value === null || value === undefined) return 'empty';
  if (Array.isArray(value)) {
    const shapes = [...new Set(value.map((element) => shapeOf(element)))].sort();
    return shapes.length === 0 ? 'empty' : `[${shapes.join(' or ')}]`;
  }
  if (typeof value !== 'object') return typeof value;
  if (MAPS.has(field)) return Object.keys(value).length === 0 ? 'empty' : mapShape(Object.values(value));
  const fields = Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, part]) => `${name}:${shapeOf(part, name)}`);
  return fields.length === 0 ? 'empty' : `{${fields.join(', ')}}`;
}

function mapShape(values: readonly unknown[]): string {
  return `map of ${[...new Set(values.map((value) => (typeof value === 'object' ? 'object' : typeof value)))].sort().join(' or ')}`;
}

/** Whether two shapes agree: an empty value agrees with a list or a map. */
export function sameShape(one: string, other: string): boolean {
  if (one === other) return true;
  const blank = (shape: string): string => shape.replace(/:(\[[^\]]*\]|map of [a-z ]+|empty)/g, ':*');
  return one === 'empty' || other === 'empty' || blank(one) === blank(other);
}
