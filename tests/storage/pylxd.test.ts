import { existsSync } from 'node:fs';
import { command, named, type Probe, startDaemon } from '@keelson/testkit';
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
