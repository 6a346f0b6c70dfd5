import { parseSize } from '@keelson/api';

type Rates = Partial<Record<'readBps' | 'readIops' | 'writeBps' | 'writeIops', number>>;

/** `limits.read`, `limits.write`, and `limits.max`, which stands for both; undefined when the disk has none. */
export function diskRates(device: Readonly<Record<string, string>>): Rates | undefined {
  const both = device['limits.max'] ?? '';
  const read = rate('read', both === '' ? (device['limits.read'] ?? '') : both);
  const write = rate('write', both === '' ? (device['limits.write'] ?? '') : both);
  const rates = { ...read, ...write };
  return Object.keys(rates).length === 0 ? undefined : rates;
}

/** `100iops` counts operations per second, anything else is bytes per second. */
function rate(direction: 'read' | 'write', text: string): Rates {
  if (text === '') return {};
  const operations = /^(\d+)iops$/.exec(text);
  if (operations !== null) return { [`${direction}Iops`]: Number(operations[1]) };
  const size = parseSize(text);
  return size.ok ? { [`${direction}Bps`]: size.value } : {};
}
