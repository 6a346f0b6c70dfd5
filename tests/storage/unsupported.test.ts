import { startDaemon, type TestDaemon } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { driverNamed } from './drivers.ts';

interface Server {
  readonly environment: {
    readonly storage_supported_drivers: readonly { readonly name: string; readonly version: string }[];
  };
}

const NAMES = ['zfs', 'lvm'];
const infos = await Promise.all(NAMES.map((name) => driverNamed(name).probe()));

describe('storage drivers of other hosts', () => {
  let daemon: TestDaemon;

  beforeAll(async () => {
    daemon = await startDaemon();
  });
  afterAll(async () => {
    await daemon?.[Symbol.asyncDispose]();
  });

  it('are listed only where they run', async () => {
    const { body } = await daemon.request<Server>('GET', '/1.0');
    const listed = body.metadata.environment.storage_supported_drivers.map(({ name }) => name);
    for (const { name, supported } of infos) expect(listed.includes(name)).toBe(supported);
  });

  for (const { name, supported, reason = '' } of infos) {
    it.skipIf(supported)(
      `${name} is refused with the reason, and nothing is left${supported ? ' (it runs here)' : ''}`,
      async () => {
        expect(reason).toMatch(/not installed|the kernel has no|is needed/);
        const made = await daemon.request('POST', '/1.0/storage-pools', { name: 'other', driver: name });
        expect(made.body).toMatchObject({
          error_code: 400,
          error: `Storage driver "${name}" is not supported here: ${reason}`,
        });
        const { body } = await daemon.request('GET', '/1.0/storage-pools');
        expect(body.metadata).toEqual([]);
      },
    );
  }
});
