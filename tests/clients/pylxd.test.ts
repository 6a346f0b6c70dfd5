import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  allOf,
  clientCertificate,
  command,
  named,
  type Probe,
  probeRoot,
  subnets,
  type TestSubnet,
  tinyImage,
} from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';

const PYTHON = '/usr/bin/python3';
const installed: Probe = existsSync('/usr/lib/python3/dist-packages/pylxd')
  ? { ok: true }
  : { ok: false, reason: "needs Debian's python3-pylxd" };
const probe = allOf(probeRoot(), installed);
const suite = fileURLToPath(new URL('pylxd_suite.py', import.meta.url));

/** The checks of the script, in its order: one that is missing there fails here. */
const checks = [
  'connect',
  'low_level_api',
  'containers_create_and_start',
  'containers_state',
  'containers_execute',
  'containers_files',
  'containers_save',
  'containers_freeze_restart_stop',
  'containers_snapshots',
  'containers_copy_and_publish',
  'containers_rename_and_delete',
  'images',
  'profiles',
  'networks',
  'storage_pools',
  'storage_volumes',
  'storage_pools_delete',
  'certificates',
  'operations',
  'events',
  'cluster',
];

describe.skipIf(!probe.ok)(named('pylxd', probe), () => {
  let world: InstanceWorld;
  let subnet: TestSubnet;
  const errors = new Map<string, string | null>();

  beforeAll(async () => {
    subnet = subnets.take();
    world = await InstanceWorld.open();
    const { stateDir } = world.daemon;
    writeFileSync(join(stateDir, 'suite.crt'), (await clientCertificate()).certificate);
    const image = await world.ok('image', 'info', 'tiny');
    const fingerprint = /Fingerprint: (\S+)/.exec(image)?.[1] ?? '';
    const { unified } = await tinyImage();
    const args = [suite, stateDir, fingerprint, unified, subnet.bridge, subnet.address];
    const { stdout, stderr } = await command(PYTHON, args, {
      env: { LXD_DIR: stateDir, PYLXD_WARNINGS: 'none' },
      anyExit: true,
    });
    for (const line of stdout.split('\n').filter((text) => text.startsWith('{'))) {
      const { name, error } = JSON.parse(line) as { name: string; error: string | null };
      errors.set(name, error);
    }
    if (errors.size === 0) throw new Error(`The script said nothing: ${stderr}`);
  }, 180_000);
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    await subnet?.[Symbol.asyncDispose]();
  });

  test.each(checks)('%s', (name) => {
    expect(errors.get(name)).toBeNull();
  });

  test('has no check that is not listed', () => {
    expect([...errors.keys()]).toEqual(checks);
  });
});
