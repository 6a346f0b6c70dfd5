import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allOf, command, named, type Probe, probePrograms, probeRoot } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';

const modules = '/usr/lib/python3/dist-packages/ansible_collections/community/general/plugins/modules';
const collection: Probe = existsSync(join(modules, 'lxd_container.py'))
  ? { ok: true }
  : { ok: false, reason: 'needs the Ansible collection community.general' };
const probe = allOf(probeRoot(), probePrograms('ansible-playbook'), collection);

type Task = readonly [name: string, module: string, args: Readonly<Record<string, unknown>>];

const container = (name: string, args: Readonly<Record<string, unknown>>): Task => [name, 'lxd_container', args];
const c1 = { name: 'c1', source: { type: 'image', alias: 'tiny' }, profiles: ['default'], timeout: 60 };

/** Run once: the modules refuse to rename and freeze twice, whatever the server; the others are like one above. */
const once = new Set(['rename a profile', 'freeze', 'start a frozen one', 'delete a stopped one', 'delete a project']);

/** Each task but those runs twice; what it returns says whether it changed something. */
const tasks: readonly Task[] = [
  ['create a profile', 'lxd_profile', { name: 'a', config: { 'limits.processes': '200' }, devices: {} }],
  ['change a profile', 'lxd_profile', { name: 'a', config: { 'limits.processes': '300' }, devices: {} }],
  ['rename a profile', 'lxd_profile', { name: 'a', new_name: 'b', config: { 'limits.processes': '300' }, devices: {} }],
  ['create a project', 'lxd_project', { name: 'pr', config: { 'features.images': 'false' }, merge_project: true }],
  container('create and start', { ...c1, config: { 'user.a': '1' }, state: 'started', wait_for_ipv4_addresses: true }),
  container('change config', { ...c1, config: { 'user.a': '2' }, state: 'started' }),
  container('freeze', { ...c1, state: 'frozen' }),
  container('start a frozen one', { ...c1, state: 'started' }),
  container('stop', { ...c1, state: 'stopped', force_stop: true }),
  container('delete', { ...c1, state: 'absent' }),
  container('create stopped', { ...c1, name: 'c2', profiles: ['default', 'b'], ephemeral: false, state: 'stopped' }),
  container('delete a stopped one', { ...c1, name: 'c2', state: 'absent' }),
  ['delete a profile', 'lxd_profile', { name: 'b', state: 'absent' }],
  ['delete a project', 'lxd_project', { name: 'pr', state: 'absent' }],
];

interface Result {
  readonly changed: boolean;
  readonly failed?: boolean;
  readonly msg?: string;
  readonly addresses?: Readonly<Record<string, readonly string[]>>;
}

describe.skipIf(!probe.ok)(named('Ansible', probe), () => {
  let world: InstanceWorld;
  let home: string;
  const results = new Map<string, Result>();

  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), 'keelson-ansible-'));
    world = await InstanceWorld.open();
    const play = {
      hosts: 'localhost',
      connection: 'local',
      gather_facts: false,
      vars: { ansible_python_interpreter: '/usr/bin/python3' },
      tasks: tasks.flatMap(([name, module, args]) =>
        (once.has(name) ? [''] : ['', ', again']).map((suffix) => ({
          name: `${name}${suffix}`,
          [`community.general.${module}`]: { ...args, url: `unix:${world.daemon.stateDir}/unix.socket` },
          // A task that failed must not hide the others.
          ignore_errors: true,
        })),
      ),
    };
    const playbook = join(home, 'playbook.json');
    writeFileSync(playbook, JSON.stringify([play]));
    const { stdout, stderr } = await command('ansible-playbook', ['-i', 'localhost,', playbook], {
      cwd: home,
      env: { HOME: home, ANSIBLE_STDOUT_CALLBACK: 'ansible.posix.json', ANSIBLE_PIPELINING: '1' },
      timeoutMs: 300_000,
      anyExit: true,
    });
    if (!stdout.startsWith('{')) throw new Error(`ansible-playbook: ${stdout}${stderr}`);
    const report = JSON.parse(stdout) as {
      plays: { tasks: { task: { name: string }; hosts: Record<string, Result> }[] }[];
    };
    for (const { task, hosts } of report.plays[0]?.tasks ?? []) {
      const result = hosts['localhost'];
      if (result !== undefined) results.set(task.name, result);
    }
  }, 360_000);
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    rmSync(home, { recursive: true, force: true });
  });

  test.each(tasks.map(([name]) => name))('%s', (name) => {
    const [first, second] = [results.get(name), results.get(`${name}, again`)];
    expect([first?.msg, second?.msg]).toEqual([undefined, undefined]);
    expect(first?.changed).toBe(true);
    if (!once.has(name)) expect(second?.changed, 'the second time changes nothing').toBe(false);
  });

  test('returns the addresses of a container', () => {
    expect(results.get('create and start')?.addresses?.['eth0']?.[0]).toMatch(/^10\./);
  });
});
