/**
 * What a caller demands of the current state before a change (`If-Match`): called with the record's ETag source
 * inside the write, so that no other change slips in between. @throws precondition-failed.
 */
export type Precondition = (etagSource: readonly unknown[]) => void;

/** No demand. */
export const anyState: Precondition = () => undefined;
