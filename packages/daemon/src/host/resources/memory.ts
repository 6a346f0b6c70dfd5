import type { ResourcesMemory, ResourcesMemoryNode } from '@keelson/api';
import type { SysFs } from './sysfs.ts';

const NODES = 'sys/devices/system/node';

export async function readMemory(sys: SysFs): Promise<ResourcesMemory> {
  const info = parseMemInfo(await sys.text('proc/meminfo'));
  const page = info.get('Hugepagesize') ?? 0;
  const pages = (key: string): number => (info.get(key) ?? 0) * page;
  const total = await installed(sys, info.get('MemTotal') ?? 0);
  const names = (await sys.list(NODES)).filter((name) => /^node\d+$/.test(name));
  const block = Number.parseInt((await sys.text('sys/devices/system/memory/block_size_bytes')) || '0', 16);
  return {
    nodes: await Promise.all(names.map((name) => readNode(sys, name, { page, block }))),
    hugepages_total: pages('HugePages_Total'),
    hugepages_used: pages('HugePages_Total') - pages('HugePages_Free'),
    hugepages_size: page,
    // What can be given to somebody else counts as free.
    used: (info.get('MemTotal') ?? 0) - (info.get('MemAvailable') ?? 0),
    total,
  };
}

/** All memory blocks that are on; more than `MemTotal`, which leaves out what the kernel keeps for itself. */
async function installed(sys: SysFs, fallback: number): Promise<number> {
  const folder = 'sys/devices/system/memory';
  const size = Number.parseInt((await sys.text(`${folder}/block_size_bytes`)) || '0', 16);
  const blocks = (await sys.list(folder)).filter((name) => /^memory\d+$/.test(name));
  if (size === 0 || blocks.length === 0) return fallback;
  const online = await Promise.all(blocks.map((name) => sys.text(`${folder}/${name}/online`)));
  return online.filter((value) => value === '1').length * size;
}

async function readNode(
  sys: SysFs,
  name: string,
  { page, block }: { page: number; block: number },
): Promise<ResourcesMemoryNode> {
  const info = parseMemInfo(await sys.text(`${NODES}/${name}/meminfo`));
  const pages = (key: string): number => (info.get(key) ?? 0) * page;
  const blocks = (await sys.list(`${NODES}/${name}`)).filter((entry) => /^memory\d+$/.test(entry)).length;
  return {
    numa_node: Number(name.slice(4)),
    hugepages_total: pages('HugePages_Total'),
    hugepages_used: pages('HugePages_Total') - pages('HugePages_Free'),
    used: info.get('MemUsed') ?? 0,
    total: blocks * block || (info.get('MemTotal') ?? 0),
  };
}

/** Bytes by name; counts of pages (without `kB`) as they are. Takes the per-node form (`Node 0 MemTotal: …`) too. */
export function parseMemInfo(text: string): Map<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split('\n')) {
    const [, key, value, unit] = /^(?:Node \d+ )?([^:]+):\s+(\d+)(?: (kB))?$/.exec(line) ?? [];
    if (key !== undefined) values.set(key, Number(value) * (unit === undefined ? 1 : 1024));
  }
  return values;
}
