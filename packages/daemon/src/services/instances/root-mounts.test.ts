import { describe, expect, it } from 'vitest';
import type { RootVolume } from './ports.ts';
import { RootMounts } from './root-mounts.ts';
import { FakeStorage } from './testing/fake-ports.ts';

const root: RootVolume = {
  pool: 'pool',
  project: 'default',
  instance: 'c1',
  type: 'container',
  idRange: undefined,
  nesting: false,
};

describe('RootMounts', () => {
  it('unmounts when the last user is gone', async () => {
    const storage = new FakeStorage();
    const mounts = new RootMounts(storage, () => false);
    const [a, b] = [await mounts.use(root), await mounts.use(root)];
    await a.release();
    await a.release();
    expect(storage.mounted.size).toBe(1);
    await b.release();
    expect(storage.mounted.size).toBe(0);
  });

  it('leaves the root to a guest that starts or runs', async () => {
    const storage = new FakeStorage();
    const mounts = new RootMounts(storage, () => false);
    const user = await mounts.use(root);
    await mounts.hold(root);
    await user.release();
    expect(storage.mounted.size).toBe(1);
    await mounts.letGo(root);
    expect(storage.mounted.size).toBe(0);
  });

  it('leaves the root of an ended guest to its users', async () => {
    const storage = new FakeStorage();
    const mounts = new RootMounts(storage, () => false);
    await mounts.hold(root);
    const user = await mounts.use(root);
    await mounts.letGo(root);
    expect(storage.mounted.size).toBe(1);
    await user.release();
    expect(storage.mounted.size).toBe(0);
  });
});
