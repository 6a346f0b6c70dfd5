import type { RouteBinding } from '../http/route.ts';

/** What one noun adds to the daemon. */
export interface Vertical {
  readonly routes: readonly RouteBinding[];
  /** First of all: open what undoing a crash needs (pools, running guests). A failure is logged. */
  prepare?(): Promise<void>;
  /** After the crash is undone, before the API answers: bring the host in line with the records. A failure is logged and keeps nobody else from starting. */
  start?(): Promise<void>;
  /** Once the API answers: what may take long, such as starting instances. */
  afterReady?(): Promise<void>;
}
