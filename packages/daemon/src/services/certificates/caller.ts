import type { Requestor } from '../events/contract.ts';

/**
 * Who asks. `unix`: a peer of the unix socket, may do everything. `trusted`: a client certificate without
 * restriction. `restricted`: a client certificate limited to `projects`. `metrics`: may read `/1.0/metrics` only.
 * `untrusted`: everybody else.
 */
export interface Caller {
  readonly kind: 'unix' | 'trusted' | 'restricted' | 'metrics' | 'untrusted';
  /** Projects a restricted caller may use; empty for all others. */
  readonly projects: readonly string[];
  /** How lifecycle events name the caller. */
  readonly requestor: Requestor;
  /** The client certificate of the connection, PEM; undefined without one. */
  readonly certificate: string | undefined;
  /** SHA-256 of that certificate, lower-case hex; empty without one. */
  readonly fingerprint: string;
}

/** True when the caller may do everything. */
export function isAdmin(caller: Caller): boolean {
  return caller.kind === 'unix' || caller.kind === 'trusted';
}

/** True when the caller may see and use the project. */
export function mayUseProject(caller: Caller, project: string): boolean {
  return isAdmin(caller) || (caller.kind === 'restricted' && caller.projects.includes(project));
}
