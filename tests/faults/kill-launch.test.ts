import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { command, logged, problemsOf, until } from '@keelson/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LxcFiles } from '../../packages/daemon/src/drivers/instance/lxc/files.ts';
import { InstanceWorld } from '../instances/world.ts';

const ROUNDS = 50;
const NAME = 'victim';

describe('kill -9 at any moment of a launch or a delete', () => {
  let world: InstanceWorld;

  // A second try must not find what the first one left.
  beforeEach(async () => {
    world = await InstanceWorld.open();
  }, 120_000);
  afterEach(() => world?.[Symbol.asyncDispose](), 120_000);

  const url = `/1.0/instances/${NAME}`;
  const source = { name: NAME, source: { type: 'image', alias: 'tiny' } };

  const live = async (): Promise<void> => {
    await world.daemon.run('POST', '/1.0/instances', source);
    await world.daemon.run('PUT', `${url}/state`, { action: 'start' });
    await world.daemon.run('PUT', `${url}/state`, { action: 'stop', force: true });
    await world.daemon.run('DELETE', url);
  };

  const exists = async (): Promise<boolean> => (await world.daemon.request('GET', url)).status === 200;

  /** Everything on the host that belongs to the instance. */
  const remains = async (): Promise<string[]> => {
    const { stateDir } = world.daemon;
    const own = (line: string): boolean => line.includes(stateDir) && line.includes(NAME);
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n').filter(own);
    const volumes = readdirSync(join(stateDir, 'storage-pools/p/containers')).filter((name) => name.includes(NAME));
    const ports = readdirSync(`/sys/class/net/${world.bridge}/brif`);
    const processes = [...(await world.daemon.leftovers()).processes.values()].filter((line) => line.includes(NAME));
    const { stdout } = await command('find', ['/sys/fs/cgroup', '-maxdepth', '4', '-type', 'd', '-name', `*${NAME}*`], {
      anyExit: true,
    });
    const { cgroupPrefix } = new LxcFiles(join(stateDir, 'lxc'));
    const cgroups = stdout.split('\n').filter((line) => line.includes(`/${cgroupPrefix}.`));
    return [...mounts, ...volumes, ...ports, ...processes, ...cgroups];
  };

  it(`leaves nothing behind and the name free, ${ROUNDS} times`, { timeout: 900_000 }, async ({ signal }) => {
    // How long a life takes here and now, so that the kills spread over all of it.
    const started = performance.now();
    await live();
    const length = performance.now() - started;
    const seen = { none: 0, stopped: 0, running: 0 };
    for (let round = 0; round < ROUNDS; round++) {
      signal.throwIfAborted();
      let killed = false;
      const life = live().catch((error: unknown) => (killed ? undefined : error));
      const moment = ((round + Math.random()) / ROUNDS) * length * 1.1;
      const at = `after kill ${round} at ${Math.round(moment)} of ${Math.round(length)} ms`;
      await sleep(moment);
      killed = true;
      await world.daemon.kill();
      expect(await life, `what failed before ${at}`).toBeUndefined();
      await world.daemon.start();
      if (await exists()) {
        const { body } = await world.daemon.request<{ status: string }>('GET', `${url}/state`);
        seen[body.metadata.status === 'Running' ? 'running' : 'stopped']++;
        if (body.metadata.status === 'Running') {
          await world.daemon.run('PUT', `${url}/state`, { action: 'stop', force: true });
        }
        await world.daemon.run('DELETE', url);
      } else {
        seen.none++;
      }
      let left: string[] = [];
      await until(
        () => `nothing to be left ${at}, but there is ${left.join()}; ${problemsOf(world.daemon)}`,
        async () => (left = await remains()).length === 0,
      );
    }
    expect(
      logged(world.daemon, /next start tries again|cannot delete the remains|is left over|was not undone/),
    ).toEqual([]);
    // All kinds of moments were hit.
    expect(seen.none).toBeGreaterThan(0);
    expect(seen.stopped + seen.running).toBeGreaterThan(0);
    await world.daemon.run('POST', '/1.0/instances', source);
    await world.daemon.run('DELETE', url);
  });
});
