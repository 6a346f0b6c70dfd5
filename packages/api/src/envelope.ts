import { Type, type Static } from 'typebox';
import { StatusCode } from './resources/common.ts';
import { Operation } from './resources/operation.ts';

/** Names of the status codes an operation, an instance or an envelope carries. */
export const statusCodes = {
  OperationCreated: 100,
  Started: 101,
  Stopped: 102,
  Running: 103,
  Cancelling: 104,
  Pending: 105,
  Starting: 106,
  Stopping: 107,
  Aborting: 108,
  Freezing: 109,
  Frozen: 110,
  Thawed: 111,
  Error: 112,
  Success: 200,
  Failure: 400,
  Cancelled: 401,
} as const;

export type StatusName = keyof typeof statusCodes;

const statusNames: ReadonlyMap<number, string> = new Map(
  Object.entries(statusCodes).map(([name, code]) => [code, name === 'OperationCreated' ? 'Operation created' : name]),
);

/** Text of a status code as it stands in `status`; empty for an unknown one. */
export function statusText(code: number): string {
  return statusNames.get(code) ?? '';
}

/** Whether an operation with this code has ended (well, badly or cancelled). */
export function isFinal(code: number): boolean {
  return code >= statusCodes.Success;
}

const fields = {
  status: Type.String(),
  status_code: StatusCode,
  operation: Type.String(),
  error_code: Type.Integer(),
  error: Type.String(),
};

/** Answer that is complete at once. */
export const SyncEnvelope = Type.Object(
  { type: Type.Literal('sync'), ...fields, metadata: Type.Unknown() },
  { $id: 'SyncEnvelope' },
);
export type SyncEnvelope<T = unknown> = Omit<Static<typeof SyncEnvelope>, 'metadata'> & { metadata: T };

/** Answer that names a background operation; comes with status 202. */
export const AsyncEnvelope = Type.Object(
  { type: Type.Literal('async'), ...fields, metadata: Operation },
  { $id: 'AsyncEnvelope' },
);
export type AsyncEnvelope = Static<typeof AsyncEnvelope>;

/** Answer of a failed request; `error_code` equals the HTTP status. */
export const ErrorEnvelope = Type.Object(
  { type: Type.Literal('error'), ...fields, metadata: Type.Unknown() },
  { $id: 'ErrorEnvelope' },
);
export type ErrorEnvelope = Static<typeof ErrorEnvelope>;

export type Envelope<T = unknown> = SyncEnvelope<T> | AsyncEnvelope | ErrorEnvelope;

export function syncEnvelope<T>(metadata: T): SyncEnvelope<T> {
  return {
    type: 'sync',
    status: 'Success',
    status_code: statusCodes.Success,
    operation: '',
    error_code: 0,
    error: '',
    metadata,
  };
}

/** @param operation URL path of the operation */
export function asyncEnvelope(operation: string, metadata: Operation): AsyncEnvelope {
  return {
    type: 'async',
    status: 'Operation created',
    status_code: statusCodes.OperationCreated,
    operation,
    error_code: 0,
    error: '',
    metadata,
  };
}

export function errorEnvelope(status: number, message: string): ErrorEnvelope {
  return {
    type: 'error',
    status: '',
    status_code: 0,
    operation: '',
    error_code: status,
    error: message,
    metadata: null,
  };
}
