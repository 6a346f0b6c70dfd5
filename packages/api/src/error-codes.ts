/** Kinds of failure a caller can tell apart. */
export type ErrorKind =
  | 'bad-request'
  | 'unauthorized'
  | 'not-found'
  | 'conflict'
  | 'precondition-failed'
  | 'too-large'
  | 'unprocessable'
  | 'locked'
  | 'internal'
  | 'not-implemented'
  | 'unavailable';

/** HTTP status (and `error_code`) of each kind. Callers without rights get 403, as LXD answers them. */
export const errorStatus: Readonly<Record<ErrorKind, number>> = {
  'bad-request': 400,
  unauthorized: 403,
  'not-found': 404,
  conflict: 409,
  'precondition-failed': 412,
  'too-large': 413,
  unprocessable: 422,
  locked: 423,
  internal: 500,
  'not-implemented': 501,
  unavailable: 503,
};

/** Kind of a status a server answered with; unlisted statuses below 500 count as bad requests, others as internal. */
export function errorKind(status: number): ErrorKind {
  for (const [kind, value] of Object.entries(errorStatus) as [ErrorKind, number][]) {
    if (value === status) {
      return kind;
    }
  }
  return status < 500 ? 'bad-request' : 'internal';
}
