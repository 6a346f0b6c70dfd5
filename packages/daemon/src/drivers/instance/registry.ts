import { errors } from '../../core/errors.ts';
import type { InstanceDriver } from './contract.ts';

/** The instance drivers of this daemon, one per instance type. */
export class InstanceDrivers {
  readonly #drivers: ReadonlyMap<InstanceDriver['type'], InstanceDriver>;

  constructor(drivers: readonly InstanceDriver[]) {
    this.#drivers = new Map(drivers.map((driver) => [driver.type, driver]));
  }

  /** @throws bad-request when this daemon has no driver for the type. */
  get(type: InstanceDriver['type']): InstanceDriver {
    const driver = this.#drivers.get(type);
    if (driver === undefined) throw errors.badRequest(`Instance type "${type}" is not supported on this server`);
    return driver;
  }

  all(): readonly InstanceDriver[] {
    return [...this.#drivers.values()];
  }
}
