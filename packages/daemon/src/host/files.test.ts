import { constants } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { writeFileAtomic } from './files.ts';
import { GuestRoot } from './guest-root.ts';

describe('GuestRoot', () => {
  let outside: string;
  let inside: string;

  beforeEach(async () => {
    outside = await mkdtemp(join(tmpdir(), 'guest-root-'));
    inside = join(outside, 'root');
    await mkdir(join(inside, 'etc'), { recursive: true });
    await writeFile(join(outside, 'secret'), 'host');
    await writeFile(join(inside, 'etc/name'), 'guest');
    await symlink(outside, join(inside, 'absolute'));
    await symlink('../../../../../../secret', join(inside, 'etc/relative'));
    await symlink('/etc/name', join(inside, 'good'));
  });
  afterEach(() => rm(outside, { recursive: true, force: true }));

  it('follows links inside the root as the guest sees them', async () => {
    await using root = await GuestRoot.open(inside);
    await using file = await root.openFile('/good', constants.O_RDONLY);
    expect(await file.readFile('utf8')).toBe('guest');
  });

  it.each(['absolute/secret', 'etc/relative', '../secret', '/../../secret', 'etc/../../secret'])(
    'cannot read %s outside the root',
    async (path) => {
      await using root = await GuestRoot.open(inside);
      await expect(root.openFile(path, constants.O_RDONLY)).rejects.toMatchObject({ code: 'ENOENT' });
    },
  );

  it.each(['proc/version', 'proc/sys/kernel/core_pattern', 'sys/kernel/profiling'])(
    'opens nothing in a kernel file system: %s',
    async (path) => {
      await using root = await GuestRoot.open('/');
      for (const flags of [constants.O_RDONLY, constants.O_WRONLY | constants.O_TRUNC])
        await expect(root.openFile(path, flags)).rejects.toMatchObject({ code: 'EPERM' });
      await expect(root.mkdir(`${path}.new`, { mode: 0o755, uid: 0, gid: 0 })).rejects.toMatchObject({ code: 'EPERM' });
      await expect(root.chmod(path, 0o777)).rejects.toMatchObject({ code: 'EPERM' });
    },
  );

  it('removes a link, never what it points to', async () => {
    await using root = await GuestRoot.open(inside);
    await root.remove('absolute');
    await root.remove('etc/relative');
    expect(await readFile(join(outside, 'secret'), 'utf8')).toBe('host');
    expect(await root.list('/')).toEqual(['etc', 'good']);
  });

  it.each(['..', '.', '/', 'etc/..'])('refuses to remove %s', async (path) => {
    await using root = await GuestRoot.open(inside);
    await expect(root.remove(path)).rejects.toMatchObject({ code: 'EINVAL' });
  });

  it('does not create through a link', async () => {
    await using root = await GuestRoot.open(inside);
    const options = { mode: 0o644, uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
    await symlink(join(outside, 'planted'), join(inside, 'trap'));
    await expect(root.createFile('trap', options)).rejects.toMatchObject({ code: 'EEXIST' });
    const file = await root.createFile('etc/new', options);
    await file.close();
    expect(await root.stat('etc/new')).toMatchObject({ kind: 'file', mode: 0o644 });
    expect((await readdir(outside)).sort()).toEqual(['root', 'secret']);
  });

  it('refuses to open what is not a regular file', async () => {
    await using root = await GuestRoot.open(inside);
    await expect(root.openFile('etc', constants.O_RDONLY)).rejects.toMatchObject({ code: 'EINVAL' });
  });

  it('replaces a file in one step', async () => {
    const path = join(outside, 'manifest');
    await writeFileAtomic(path, 'one');
    await writeFileAtomic(path, 'two');
    expect(await readFile(path, 'utf8')).toBe('two');
  });
});
