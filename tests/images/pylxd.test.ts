import { command, named, type Probe, startDaemon, tinyImage } from '@keelson/testkit';
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const PYTHON = '/usr/bin/python3';
const MODULE = '/usr/lib/python3/dist-packages/pylxd';
const probe: Probe = existsSync(MODULE) ? { ok: true } : { ok: false, reason: "needs Debian's python3-pylxd" };

const SCRIPT = `
import hashlib, sys, warnings
warnings.simplefilter('ignore')
from pylxd import Client
from pylxd.exceptions import LXDAPIException
metadata, rootfs, unified = [open(path, 'rb').read() for path in sys.argv[1:]]
images = Client().images

image = images.create(unified, public=True, wait=True)
assert image.public and image.properties['os'] == 'Tiny'
assert images.exists(image.fingerprint) and not images.exists('nope', alias=True)
image.add_alias('tiny', 'a description')
assert images.get_by_alias('tiny').aliases == [{'name': 'tiny', 'description': 'a description'}]
assert hashlib.sha256(image.export().read()).hexdigest() == image.fingerprint
image.properties = {'colour': 'blue'}
image.public = False
image.save(wait=True)
image = images.get(image.fingerprint)
assert image.properties == {'colour': 'blue'} and not image.public
image.delete_alias('tiny')
image.delete(wait=True)

split = images.create(rootfs, metadata=metadata, wait=True)
assert split.fingerprint == hashlib.sha256(metadata + rootfs).hexdigest()
exported = split.export().read()
assert metadata in exported and rootfs in exported
split.delete(wait=True)
assert images.all() == []

try:
    images.create(b'no image', wait=True)
    raise SystemExit('accepted')
except LXDAPIException as refused:
    print(refused)
`;

describe.skipIf(!probe.ok)(named('pylxd', probe), () => {
  it('creates, reads, changes, exports and deletes images', async () => {
    const { metadata, rootfs, unified } = await tinyImage();
    await using daemon = await startDaemon();
    const { stdout } = await command(PYTHON, ['-c', SCRIPT, metadata, rootfs, unified], {
      env: { LXD_DIR: daemon.stateDir },
    });
    expect(stdout.trim()).toBe('Unsupported compression');
  });
});
