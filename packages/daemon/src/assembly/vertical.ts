import type { RouteBinding } from '../http/route.ts';

/** What one noun adds to the daemon. */
export interface Vertical {
  readonly routes: readonly RouteBinding[];
  /** Before the API answers: bring the host in line with the records. A failure is logged and keeps nobody else from starting. */
  start?(): Promise<void>;
  /** Once the API answers: what may take long, such as starting instances. */
  afterReady?(): Promise<void>;
}
