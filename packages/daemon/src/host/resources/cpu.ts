import type { ResourcesCPU, ResourcesCPUCache, ResourcesCPUCore, ResourcesCPUSocket } from '@keelson/api';
import { machine } from 'node:os';
import { parseIdList, type SysFs } from './sysfs.ts';

const CPUS = 'sys/devices/system/cpu';

interface Thread {
  readonly id: number;
  readonly socket: number;
  readonly core: number;
  readonly die: number;
  readonly online: boolean;
  readonly isolated: boolean;
  readonly numaNode: number;
  /** Current, lowest and highest frequency, MHz. */
  readonly mhz: readonly [number, number, number];
}

export async function readCpu(sys: SysFs): Promise<ResourcesCPU> {
  const isolated = parseIdList(await sys.text(`${CPUS}/isolated`));
  const names = (await sys.list(CPUS)).filter((name) => /^cpu\d+$/.test(name));
  const threads = await Promise.all(names.map((name) => readThread(sys, Number(name.slice(3)), isolated)));
  const info = parseCpuInfo(await sys.text('proc/cpuinfo'));
  const sockets = [...Map.groupBy(threads, ({ socket }) => socket)];
  return {
    architecture: machine(),
    sockets: await Promise.all(sockets.map(([socket, own]) => readSocket(sys, { socket, threads: own, info }))),
    total: threads.length,
  };
}

async function readThread(sys: SysFs, id: number, isolated: readonly number[]): Promise<Thread> {
  const folder = `${CPUS}/cpu${id}`;
  const [socket, core, die, online, now, low, high, entries] = await Promise.all([
    sys.number(`${folder}/topology/physical_package_id`),
    sys.number(`${folder}/topology/core_id`),
    sys.number(`${folder}/topology/die_id`),
    sys.text(`${folder}/online`),
    sys.number(`${folder}/cpufreq/scaling_cur_freq`),
    sys.number(`${folder}/cpufreq/cpuinfo_min_freq`),
    sys.number(`${folder}/cpufreq/cpuinfo_max_freq`),
    sys.list(folder),
  ]);
  const node = entries.find((name) => /^node\d+$/.test(name)) ?? 'node0';
  return {
    id,
    socket: Math.max(0, socket),
    core: Math.max(0, core),
    die: Math.max(0, die),
    online: online !== '0', // the first CPU has no such file: it is always on
    isolated: isolated.includes(id),
    numaNode: Number(node.slice(4)),
    mhz: [now, low, high].map((khz) => Math.round(khz / 1000)) as [number, number, number],
  };
}

interface SocketParts {
  readonly socket: number;
  readonly threads: readonly Thread[];
  readonly info: ReadonlyMap<number, { readonly vendor: string; readonly model: string }>;
}

async function readSocket(sys: SysFs, { socket, threads, info }: SocketParts): Promise<ResourcesCPUSocket> {
  const first = threads[0];
  const id = first?.id ?? 0;
  const [now, low, high] = first?.mhz ?? [0, 0, 0];
  const cores = Map.groupBy(threads, ({ die, core }) => `${die}/${core}`);
  return {
    name: info.get(id)?.model ?? '',
    vendor: info.get(id)?.vendor ?? '',
    socket,
    cache: await readCaches(sys, id),
    cores: [...cores.values()].map(coreOf),
    ...(now > 0 ? { frequency: now } : {}),
    ...(low > 0 ? { frequency_minimum: low } : {}),
    ...(high > 0 ? { frequency_turbo: high } : {}),
  };
}

function coreOf(threads: readonly Thread[]): ResourcesCPUCore {
  const [first] = threads;
  const mhz = first?.mhz[0] ?? 0;
  return {
    core: first?.core ?? 0,
    die: first?.die ?? 0,
    threads: threads.map(({ id, numaNode, online, isolated }, thread) => ({
      id,
      numa_node: numaNode,
      thread,
      online,
      isolated,
    })),
    ...(mhz > 0 ? { frequency: mhz } : {}),
  };
}

async function readCaches(sys: SysFs, cpu: number): Promise<ResourcesCPUCache[]> {
  const folder = `${CPUS}/cpu${cpu}/cache`;
  const names = (await sys.list(folder)).filter((name) => /^index\d+$/.test(name));
  return Promise.all(
    names.map(async (name) => ({
      level: await sys.number(`${folder}/${name}/level`),
      type: await sys.text(`${folder}/${name}/type`),
      size: Number.parseInt((await sys.text(`${folder}/${name}/size`)) || '0', 10) * 1024,
    })),
  );
}

/** Vendor and model by processor number. */
export function parseCpuInfo(text: string): Map<number, { vendor: string; model: string }> {
  const cpus = new Map<number, { vendor: string; model: string }>();
  for (const block of text.split(/\n\s*\n/)) {
    const fields = new Map(
      block.split('\n').map((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()] as const;
      }),
    );
    const id = fields.get('processor');
    if (id === undefined) continue;
    cpus.set(Number(id), { vendor: fields.get('vendor_id') ?? '', model: fields.get('model name') ?? '' });
  }
  return cpus;
}
