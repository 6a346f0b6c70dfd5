import { Type, type Static } from 'typebox';
import { AnyMap, StringMap, Timestamp } from './common.ts';

/** Metadata of an event of type `logging`. */
export const EventLogging = Type.Object(
  {
    message: Type.String(),
    level: Type.String(),
    context: StringMap,
  },
  { $id: 'EventLogging' },
);
export type EventLogging = Static<typeof EventLogging>;

/** Who caused a lifecycle event. */
export const EventLifecycleRequestor = Type.Object(
  {
    username: Type.String(),
    protocol: Type.String(),
    address: Type.String(),
  },
  { $id: 'EventLifecycleRequestor' },
);
export type EventLifecycleRequestor = Static<typeof EventLifecycleRequestor>;

/** Metadata of an event of type `lifecycle`: `action` happened to the resource at the URL path `source`. */
export const EventLifecycle = Type.Object(
  {
    action: Type.String(),
    source: Type.String(),
    context: Type.Optional(AnyMap),
    requestor: Type.Optional(EventLifecycleRequestor),
  },
  { $id: 'EventLifecycle' },
);
export type EventLifecycle = Static<typeof EventLifecycle>;

/** One message of `GET /1.0/events`; the shape of `metadata` follows from `type`. */
export const Event = Type.Object(
  {
    location: Type.Optional(Type.String()),
    metadata: AnyMap,
    /** Grows by one an event while the server runs; `since` of the request replays from there. Keelson only. */
    sequence: Type.Optional(Type.Integer()),
    project: Type.Optional(Type.String()),
    timestamp: Timestamp,
    type: Type.String(),
  },
  { $id: 'Event' },
);
export type Event = Static<typeof Event>;
