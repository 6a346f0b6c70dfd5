import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { allOf, command, named, type Probe, probePrograms, probeRoot, startDaemon, startLxd } from '@keelson/testkit';
import { describe, expect, it } from 'vitest';

const PYTHON = '/usr/bin/python3';
const MODULE = '/usr/lib/python3/dist-packages/pylxd';
const probe: Probe = existsSync(MODULE) ? { ok: true } : { ok: false, reason: "needs Debian's python3-pylxd" };

const SCRIPT = `
import warnings
warnings.simplefilter('ignore')
from pylxd import Client
from pylxd.exceptions import LXDAPIException, NotFound
client = Client()
pools = client.storage_pools

pool = pools.create({'name': 'py', 'driver': 'dir', 'config': {'user.a': '1'}})
assert pools.exists('py') and not pools.exists('nope')
assert [one.name for one in pools.all()] == ['py']
pool = pools.get('py')
assert pool.driver == 'dir' and pool.managed is True and pool.config['user.a'] == '1'
pool.description = 'saved'
pool.config['user.b'] = '2'
pool.save(wait=True)
assert pools.get('py').description == 'saved'
pool.put({'description': 'put', 'config': pool.config}, wait=True)
assert pool.description == 'put'
pool.patch({'config': {'user.c': '3'}}, wait=True)
assert pool.config['user.c'] == '3'
assert pool.resources.get().space['total'] > 0
try:
    pools.get('nope')
    raise SystemExit('found')
except NotFound:
    pass
try:
    pool.put({'config': {'source': '/elsewhere'}}, wait=True)
    raise SystemExit('accepted')
except LXDAPIException as refused:
    assert 'source' in str(refused)

volume = pool.volumes.create({'name': 'v', 'type': 'custom'}, wait=True)
volume = pool.volumes.get('custom', 'v')
volume.config = {'user.s': '1'}
volume.save(wait=True)
assert pool.volumes.get('custom', 'v').config == {'user.s': '1'}
volume.patch({'config': {'user.k': 'v'}}, wait=True)
assert volume.config['user.k'] == 'v'
volume.rename({'name': 'w', 'pool': 'py'})
assert [one.name for one in pool.volumes.all()] == ['w']
other = pools.create({'name': 'py2', 'driver': 'dir'})
pool.volumes.get('custom', 'w').rename({'name': 'x', 'pool': 'py2'}, wait=True)
assert pool.volumes.all() == []
other.volumes.get('custom', 'x').delete()
other.delete()
pool.delete()
assert pools.all() == []
print('done')
`;

describe.skipIf(!probe.ok)(named('pylxd and storage', probe), () => {
  it('pools and volumes', async () => {
    await using daemon = await startDaemon();
    const { stdout } = await command(PYTHON, ['-c', SCRIPT], { env: { LXD_DIR: daemon.stateDir } });
    expect(stdout.trim()).toBe('done');
  });
});

/** What one call of the program gave: what it returned, or what it raised. */
interface Told {
  readonly what: string;
  readonly gives?: unknown;
  readonly raises?: string;
  readonly status?: number;
  readonly says?: string;
}

const WALK = fileURLToPath(new URL('pylxd_walk.py', import.meta.url));

/** Calls at which this server is otherwise than LXD 5.0.2, and why. */
const differences: Readonly<Record<string, string>> = {
  patched: 'A patch leaves what it does not name; LXD empties the description.',
  'pool delete used': 'The refusal names the users.',
  'instance snapshot twice': "Without LXD's inner step.",
};

async function walk(dir: string): Promise<readonly Told[]> {
  const { stdout } = await command(PYTHON, [WALK], { env: { LXD_DIR: dir }, timeoutMs: 300_000 });
  const same = stdout
    .replaceAll(dir, '<dir>')
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>');
  return same
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Told);
}

/** What the caller got wrong is a 4xx here; LXD often calls it its own failure. */
const blamed = (told: Told): Told => (told.says !== undefined && told.status === 500 ? { ...told, status: 400 } : told);

const both = allOf(probe, probeRoot(), probePrograms('lxd', 'mkfs.btrfs'));

describe.skipIf(!both.ok)(named('pylxd and storage, here and with LXD 5.0.2', both), () => {
  it('sees the same', async () => {
    await using daemon = await startDaemon();
    await using peer = await startLxd();
    const [lxd, ours] = await Promise.all([walk(peer.dir), walk(daemon.stateDir)]);
    const apart = lxd.flatMap((theirs, at) => {
      const mine = ours[at];
      return JSON.stringify(blamed(theirs)) === JSON.stringify(mine) ? [] : [{ theirs, mine }];
    });
    expect(apart.filter(({ theirs }) => differences[theirs.what] === undefined)).toEqual([]);
    expect(apart.map(({ theirs }) => theirs.what)).toEqual(Object.keys(differences));
    expect(ours.length).toBe(lxd.length);
    expect(
      ours.filter(({ raises }) => raises !== undefined && raises !== 'LXDAPIException' && raises !== 'NotFound'),
    ).toEqual([]);
  }, 300_000);
});
