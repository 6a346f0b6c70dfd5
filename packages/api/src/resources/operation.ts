import { Type, type Static } from 'typebox';
import { AnyMap, Nullable, StatusCode, Timestamp } from './common.ts';

/** A background operation. `GET /1.0/operations/:id`. */
export const Operation = Type.Object(
  {
    class: Type.String(),
    created_at: Timestamp,
    description: Type.String(),
    err: Type.String(),
    id: Type.String(),
    location: Type.String(),
    may_cancel: Type.Boolean(),
    metadata: Nullable(AnyMap),
    resources: Nullable(Type.Record(Type.String(), Type.Array(Type.String()))),
    status: Type.String(),
    status_code: StatusCode,
    updated_at: Timestamp,
  },
  { $id: 'Operation' },
);
export type Operation = Static<typeof Operation>;
