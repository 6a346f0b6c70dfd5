import type { DeviceConfig } from '../config-keys.ts';
import { Type, type Static, type TSchema } from 'typebox';

/** Map of string to string; config maps travel like this, numbers and booleans included. */
export const StringMap = Type.Record(Type.String(), Type.String());
export type StringMap = Static<typeof StringMap>;

/** Devices by name; each is a map of string to string with at least `type`. */
export const DevicesMap = Type.Unsafe<Record<string, DeviceConfig>>(Type.Record(Type.String(), StringMap));
export type DevicesMap = Static<typeof DevicesMap>;

/** Object whose content has no fixed shape. */
export const AnyMap = Type.Record(Type.String(), Type.Unknown());
export type AnyMap = Static<typeof AnyMap>;

/** RFC 3339 time. `0001-01-01T00:00:00Z` (`1970-01-01T00:00:00Z` in some records) means never. */
export const Timestamp = Type.String({ format: 'date-time' });
export type Timestamp = Static<typeof Timestamp>;

/** Status code of an operation or an instance; the names are in `statusCodes`. */
export const StatusCode = Type.Integer();
export type StatusCode = Static<typeof StatusCode>;

/** `container` or `virtual-machine`; empty in a request means container. */
export const InstanceType = Type.Union([Type.Literal(''), Type.Literal('container'), Type.Literal('virtual-machine')]);
export type InstanceType = Static<typeof InstanceType>;

/** The schema, or null where the server has nothing to tell. */
export function Nullable<T extends TSchema>(schema: T) {
  return Type.Union([schema, Type.Null()]);
}

/** Map of string to string that completes the keys of one kind of config. */
export function typedMap<T extends Record<string, string>>() {
  return Type.Unsafe<T>(StringMap);
}
