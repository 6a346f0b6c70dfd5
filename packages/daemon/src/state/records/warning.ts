/** Stored under `/warnings/<uuid>`. */
export interface WarningRecord {
  readonly uuid: string;
  /** Server it was found on; `none` alone. */
  readonly location: string;
  /** Empty when it concerns no project. */
  readonly project: string;
  /** URL path of the object it is about; empty when there is none. */
  readonly entityUrl: string;
  /** What is wrong, as a short text; the same every time. */
  readonly type: string;
  readonly severity: 'low' | 'moderate' | 'high';
  readonly status: 'new' | 'acknowledged' | 'resolved';
  /** Times it was found. */
  readonly count: number;
  readonly lastMessage: string;
  readonly firstSeenAt: string;
  readonly lastSeenAt: string;
}
