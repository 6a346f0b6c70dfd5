import { BridgeDriver, type BridgeDriverOptions } from './bridge/bridge-driver.ts';
import type { NetworkDriver } from './contract.ts';

/** Every kind of network this server can manage, by LXD's type name. */
export function networkDrivers(options: BridgeDriverOptions): ReadonlyMap<string, NetworkDriver> {
  const all: NetworkDriver[] = [new BridgeDriver(options)];
  return new Map(all.map((driver) => [driver.type, driver]));
}
