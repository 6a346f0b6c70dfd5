import { afterAll } from 'vitest';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import type { StorageDriver } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { StorageDrivers } from '../../packages/daemon/src/drivers/storage/registry.ts';

const made: StorageDrivers[] = [];
afterAll(async () => {
  for (const drivers of made) await drivers[Symbol.asyncDispose]();
});

/** A driver of its own each time, as a daemon that just started has one. */
export function driverNamed(name: string): StorageDriver {
  const drivers = new StorageDrivers(silentLog);
  made.push(drivers);
  const driver = drivers.get(name);
  if (driver === undefined) throw new Error(`no driver ${name}`);
  return driver;
}
