import { recordProblems, Resources } from '@keelson/api';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { parseMemInfo } from './memory.ts';
import { readResources } from './resources.ts';
import { parseIdList, SysFs } from './sysfs.ts';

const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true });
});

/** A host made of these kernel files; a value that starts with `->` is a symbolic link. */
function host(files: Readonly<Record<string, string>>): SysFs {
  const root = mkdtempSync(join(tmpdir(), 'keelson-sys-'));
  roots.push(root);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    if (content.startsWith('->')) symlinkSync(content.slice(2), join(root, path));
    else writeFileSync(join(root, path), content);
  }
  return new SysFs(root);
}

test('a host that shows nothing still has a valid record', async () => {
  const resources = await readResources(host({}));
  expect(recordProblems(Resources, resources)).toEqual([]);
  expect(resources).toMatchObject({ cpu: { total: 0 }, network: { cards: [] }, system: { firmware: null } });
});

test('threads of a core, cores of a socket', async () => {
  const cpu = 'sys/devices/system/cpu';
  const thread = (id: number, socket: number, core: number, extra: Record<string, string> = {}) => ({
    [`${cpu}/cpu${id}/topology/physical_package_id`]: `${socket}\n`,
    [`${cpu}/cpu${id}/topology/core_id`]: `${core}\n`,
    ...extra,
  });
  const resources = await readResources(
    host({
      ...thread(0, 0, 0, { [`${cpu}/cpu0/cpufreq/scaling_cur_freq`]: '2400000' }),
      ...thread(1, 0, 0),
      ...thread(2, 0, 1, { [`${cpu}/cpu2/online`]: '0\n' }),
      ...thread(3, 1, 0),
      [`${cpu}/isolated`]: '3\n',
      'proc/cpuinfo': 'processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Fast: 9000\n\nprocessor\t: 1\n',
    }),
  );
  expect(resources.cpu.total).toBe(4);
  const [first, second] = resources.cpu.sockets;
  expect([first?.vendor, first?.name, first?.frequency]).toEqual(['GenuineIntel', 'Fast: 9000', 2400]);
  expect(first?.cores.map(({ threads }) => threads.map(({ id }) => id))).toEqual([[0, 1], [2]]);
  expect(first?.cores[1]?.threads[0]?.online).toBe(false);
  expect(second?.cores[0]?.threads[0]?.isolated).toBe(true);
});

test('disks are hardware, not loops or partitions', async () => {
  const disk = (id: string, sectors: number) => ({
    [`sys/class/block/${id}/dev`]: '8:0\n',
    [`sys/class/block/${id}/size`]: `${sectors}\n`,
  });
  const { storage } = await readResources(
    host({
      ...disk('sda', 2048),
      'sys/class/block/sda/device': '->../../device',
      'sys/class/block/sda/sda1/partition': '1\n',
      'sys/class/block/sda/sda1/size': '1024\n',
      'sys/class/block/sda/sda1/dev': '8:1\n',
      ...disk('loop0', 10),
    }),
  );
  expect(storage.disks).toMatchObject([
    { id: 'sda', size: 1024 * 1024, partitions: [{ id: 'sda1', partition: 1, size: 512 * 1024 }] },
  ]);
});

test('network cards are those with a device behind them', async () => {
  const { network } = await readResources(
    host({
      'sys/class/net/lo/address': '00:00:00:00:00:00\n',
      'sys/class/net/eth0/address': '02:00:00:00:00:01\n',
      'sys/class/net/eth0/carrier': '1\n',
      'sys/class/net/eth0/device': '->../../../0000:00:03.0/virtio0',
    }),
  );
  expect(network.cards.map(({ ports }) => ports?.map(({ id, link_detected }) => [id, link_detected]))).toEqual([
    [['eth0', true]],
  ]);
});

test.each([
  ['0-3,8', [0, 1, 2, 3, 8]],
  ['5', [5]],
  ['', []],
])('id list %j', (text, ids) => {
  expect(parseIdList(text)).toEqual(ids);
});

test('meminfo, of the host and of a node', () => {
  const text = 'MemTotal:       1000 kB\nHugePages_Total:       3\nNode 0 MemUsed:  2 kB\n';
  expect(Object.fromEntries(parseMemInfo(text))).toEqual({ MemTotal: 1_024_000, HugePages_Total: 3, MemUsed: 2048 });
});
