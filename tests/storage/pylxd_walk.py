"""What a program that uses pylxd sees of storage: one line of JSON per call."""
import json
import warnings

warnings.simplefilter('ignore')
from pylxd import Client
from pylxd.exceptions import LXDAPIException

client = Client()
pools = client.storage_pools
FIELDS = {
    'StoragePool': ['name', 'driver', 'used_by', 'config', 'status', 'locations', 'description'],
    'StorageVolume': ['name', 'type', 'description', 'config', 'used_by', 'location', 'content_type'],
    'Snapshot': ['name', 'stateful', 'ephemeral', 'profiles'],
}


def plain(value):
    name = type(value).__name__
    if name in FIELDS:
        return {'is': name, **{field: plain(getattr(value, field, 'absent')) for field in FIELDS[name]}}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in sorted(value.items())}
    return value if isinstance(value, (str, int, float, bool, type(None))) else name


def tell(what, call):
    try:
        seen = {'gives': plain(call())}
    except LXDAPIException as error:
        status = getattr(error.response, 'status_code', None)
        seen = {'raises': type(error).__name__, 'status': status, 'says': str(error)}
    except Exception as error:
        seen = {'raises': type(error).__name__, 'says': str(error)}
    print(json.dumps({'what': what, **seen}))


def change(thing, **values):
    for key, value in values.items():
        setattr(thing, key, value)
    thing.save(wait=True)
    return thing


tell('no pools', lambda: pools.all())
tell('create', lambda: pools.create({'name': 'py', 'driver': 'dir', 'config': {'user.a': '1'}}))
tell('create twice', lambda: pools.create({'name': 'py', 'driver': 'dir'}))
tell('create without name', lambda: pools.create({'driver': 'dir'}))
tell('create wrong driver', lambda: pools.create({'name': 'px', 'driver': 'nonsense'}))
tell('create wrong key', lambda: pools.create({'name': 'px', 'driver': 'dir', 'config': {'foo': 'bar'}}))
tell('create wrong source', lambda: pools.create({'name': 'px', 'driver': 'dir', 'config': {'source': '/no/such'}}))
tell('create btrfs', lambda: pools.create({'name': 'bt', 'driver': 'btrfs', 'config': {'size': '256MiB'}}))
tell('all', lambda: sorted(one.name for one in pools.all()))
tell('exists', lambda: [pools.exists('py'), pools.exists('nope')])
tell('get', lambda: pools.get('py'))
tell('get missing', lambda: pools.get('nope'))
pool = pools.get('py')
other = pools.get('bt')
tell('resources', lambda: sorted(pool.resources.get().space))
tell('save', lambda: change(pool, description='saved', config={**pool.config, 'user.b': '2'}))
tell('saved', lambda: pools.get('py'))
tell('save wrong key', lambda: change(pools.get('py'), config={'foo': '1'}))
tell('put', lambda: pool.put({'description': 'put', 'config': {**pool.config, 'user.c': '3'}}, wait=True))
tell('put wrong source', lambda: pool.put({'config': {'source': '/elsewhere'}}, wait=True))
tell('patch', lambda: pool.patch({'config': {'user.d': '4'}}, wait=True))
tell('patched', lambda: pools.get('py'))
tell('patch description', lambda: pool.patch({'config': {}, 'description': 'patched'}, wait=True))

volumes = pool.volumes
tell('no volumes', lambda: volumes.all())
tell('volume create', lambda: volumes.create({'name': 'v', 'type': 'custom', 'config': {'user.a': '1'}}, wait=True))
tell('volume create twice', lambda: volumes.create({'name': 'v', 'type': 'custom'}, wait=True))
tell('volume create without type', lambda: volumes.create({'name': 'untyped'}, wait=True))
tell('volume create wrong type', lambda: volumes.create({'name': 'typed', 'type': 'container'}, wait=True))
tell('volume create wrong name', lambda: volumes.create({'name': 'x/y', 'type': 'custom'}, wait=True))
tell('volume create wrong key', lambda: volumes.create({'name': 'y', 'type': 'custom', 'config': {'foo': '1'}}, wait=True))
tell('volume create block', lambda: volumes.create(
    {'name': 'blk', 'type': 'custom', 'content_type': 'block', 'config': {'size': '8MiB'}}, wait=True))
tell('volume copy', lambda: volumes.create(
    {'name': 'c', 'type': 'custom', 'source': {'type': 'copy', 'pool': 'py', 'name': 'v'}}, wait=True))
tell('volume copy of nothing', lambda: volumes.create(
    {'name': 'd', 'type': 'custom', 'source': {'type': 'copy', 'pool': 'py', 'name': 'nope'}}, wait=True))
tell('volumes', lambda: sorted(one.name for one in volumes.all()))
tell('volume get', lambda: volumes.get('custom', 'v'))
tell('volume get missing', lambda: volumes.get('custom', 'nope'))
tell('volume get wrong type', lambda: volumes.get('nonsense', 'v'))
volume = volumes.get('custom', 'v')
tell('volume save', lambda: change(volume, config={'user.s': '1'}, description='s'))
tell('volume saved', lambda: volumes.get('custom', 'v'))
tell('volume save wrong key', lambda: change(volumes.get('custom', 'v'), config={'foo': '1'}))
tell('volume put', lambda: volume.put({'config': {'user.p': '1'}, 'description': 'p'}, wait=True))
tell('volume patch', lambda: volume.patch({'config': {'user.k': 'v'}, 'description': 'p'}, wait=True))
tell('volume patched', lambda: volumes.get('custom', 'v'))

tell('volume delete typed', lambda: [volumes.get('custom', name).delete() for name in ('typed', 'untyped')])
tell('volume rename', lambda: volumes.get('custom', 'c').rename({'name': 'w', 'pool': 'py'}))
tell('volume rename taken', lambda: volumes.get('custom', 'w').rename({'name': 'v', 'pool': 'py'}))
tell('volume move', lambda: volumes.get('custom', 'w').rename({'name': 'x', 'pool': 'bt'}, wait=True))
tell('volume move to nowhere', lambda: volumes.get('custom', 'v').rename({'name': 'x', 'pool': 'nope'}, wait=True))
tell('volumes after', lambda: [sorted(one.name for one in each.volumes.all()) for each in (pool, other)])

root = {'root': {'type': 'disk', 'path': '/', 'pool': 'py'}}
tell('instance', lambda: client.containers.create(
    {'name': 'i', 'source': {'type': 'none'}, 'profiles': [], 'devices': {
        **root, 'data': {'type': 'disk', 'path': '/data', 'pool': 'py', 'source': 'v'}}}, wait=True).name)
tell('volume used', lambda: volumes.get('custom', 'v').used_by)
tell('volume delete used', lambda: volumes.get('custom', 'v').delete())
tell('pool used', lambda: pools.get('py'))
tell('pool delete used', lambda: pools.get('py').delete())
tell('root volume', lambda: volumes.get('container', 'i'))
tell('root volume delete', lambda: volumes.get('container', 'i').delete())
instance = client.containers.get('i')
tell('instance snapshot', lambda: instance.snapshots.create('s0', wait=True))
tell('instance snapshot twice', lambda: instance.snapshots.create('s0', wait=True))
tell('instance snapshots', lambda: [one.name for one in instance.snapshots.all()])
tell('instance snapshot rename', lambda: instance.snapshots.get('s0').rename('s1', wait=True))
tell('instance restore', lambda: instance.restore_snapshot('s1', wait=True))
tell('instance restore missing', lambda: instance.restore_snapshot('nope', wait=True))
tell('instance snapshot delete', lambda: instance.snapshots.get('s1').delete(wait=True))
tell('instance delete', lambda: instance.delete(wait=True))

tell('volume delete', lambda: [volumes.get('custom', name).delete() for name in ('v', 'blk')])
tell('volume delete other', lambda: other.volumes.get('custom', 'x').delete())
tell('delete', lambda: [pools.get(name).delete() for name in ('py', 'bt')])
tell('none left', lambda: pools.all())
