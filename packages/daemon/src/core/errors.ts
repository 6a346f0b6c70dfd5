/** Kinds of failure a caller can tell apart; `http` maps each to one status. */
export type ErrorCode =
  | 'bad-request' // 400
  | 'unauthorized' // 403 as LXD answers untrusted callers
  | 'not-found' // 404
  | 'conflict' // 409
  | 'precondition-failed' // 412
  | 'too-large' // 413
  | 'unprocessable' // 422
  | 'locked' // 423
  | 'internal' // 500
  | 'not-implemented' // 501
  | 'unavailable'; // 503

/** The one error class of the daemon. `message` is for the user; `cause` is for the log only. */
export class KeelsonError extends Error {
  override readonly name = 'KeelsonError';
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

const maker =
  (code: ErrorCode) =>
  (message: string, cause?: unknown): KeelsonError =>
    new KeelsonError(code, message, cause === undefined ? undefined : { cause });

/** One constructor per kind: `throw errors.notFound('Pool "x" not found')`. */
export const errors: {
  readonly badRequest: (message: string, cause?: unknown) => KeelsonError;
  readonly unauthorized: (message: string, cause?: unknown) => KeelsonError;
  readonly notFound: (message: string, cause?: unknown) => KeelsonError;
  readonly conflict: (message: string, cause?: unknown) => KeelsonError;
  readonly preconditionFailed: (message: string, cause?: unknown) => KeelsonError;
  readonly tooLarge: (message: string, cause?: unknown) => KeelsonError;
  readonly unprocessable: (message: string, cause?: unknown) => KeelsonError;
  readonly locked: (message: string, cause?: unknown) => KeelsonError;
  readonly internal: (message: string, cause?: unknown) => KeelsonError;
  readonly notImplemented: (message: string, cause?: unknown) => KeelsonError;
  readonly unavailable: (message: string, cause?: unknown) => KeelsonError;
} = {
  badRequest: maker('bad-request'),
  unauthorized: maker('unauthorized'),
  notFound: maker('not-found'),
  conflict: maker('conflict'),
  preconditionFailed: maker('precondition-failed'),
  tooLarge: maker('too-large'),
  unprocessable: maker('unprocessable'),
  locked: maker('locked'),
  internal: maker('internal'),
  notImplemented: maker('not-implemented'),
  unavailable: maker('unavailable'),
};

export function isKeelsonError(value: unknown, code?: ErrorCode): value is KeelsonError {
  return value instanceof KeelsonError && (code === undefined || value.code === code);
}
