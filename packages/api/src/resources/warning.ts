import { Type, type Static } from 'typebox';
import { Timestamp } from './common.ts';

/** Writable part of a warning. */
export const WarningPut = Type.Object(
  {
    status: Type.String(),
  },
  { $id: 'WarningPut' },
);
export type WarningPut = Static<typeof WarningPut>;

/** A warning about something that needs attention. `GET /1.0/warnings/:uuid`. */
export const Warning = Type.Object(
  {
    count: Type.Integer(),
    entity_url: Type.String(),
    first_seen_at: Timestamp,
    last_message: Type.String(),
    last_seen_at: Timestamp,
    location: Type.String(),
    project: Type.String(),
    severity: Type.String(),
    status: Type.String(),
    type: Type.String(),
    uuid: Type.String(),
  },
  { $id: 'Warning' },
);
export type Warning = Static<typeof Warning>;
