import { errorEnvelope, errorStatus, statusCodes, statusText } from '@keelson/api';
import { isKeelsonError } from '../core/errors.ts';
import type { OperationRecord } from '../services/operations/contract.ts';

const SYNC_HEAD =
  '{"type":"sync","status":"Success","status_code":200,"operation":"","error_code":0,"error":"","metadata":';

const asyncHead = {
  type: 'async',
  status: statusText(statusCodes.OperationCreated),
  status_code: statusCodes.OperationCreated,
  operation: '',
  error_code: 0,
  error: '',
};

/** Envelope of a standard answer around JSON text. */
export function syncBody(json: string): string {
  return `${SYNC_HEAD}${json}}\n`;
}

/** Envelope of a background operation. */
export function operationBody(record: OperationRecord): string {
  return `${JSON.stringify({ ...asyncHead, operation: operationUrl(record.id), metadata: record })}\n`;
}

export function operationUrl(id: string): string {
  return `/1.0/operations/${id}`;
}

/** Status and envelope of a failure; a cause that is not ours becomes a 500 with its message. */
export function errorBody(error: unknown): { status: number; body: string } {
  const status = errorStatus[isKeelsonError(error) ? error.code : 'internal'];
  const message = error instanceof Error ? error.message : String(error);
  return { status, body: `${JSON.stringify(errorEnvelope(status, message))}\n` };
}
