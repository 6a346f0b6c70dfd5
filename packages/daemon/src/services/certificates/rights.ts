import type { CertificatePut } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { CertificateRecord } from '../../state/records/certificate.ts';
import { isAdmin, type Caller } from './caller.ts';

/** @throws bad-request for a type a certificate cannot have. */
export function typeOf(type: string | undefined): CertificateRecord['type'] {
  if (type === undefined || type === '' || type === 'client') return 'client';
  if (type === 'metrics') return 'metrics';
  throw errors.badRequest(`Unknown request type "${type}"`);
}

/** Certificates the caller may see: an administrator all, everybody else its own. */
export function maySee(caller: Caller, fingerprint: string): boolean {
  return isAdmin(caller) || (caller.fingerprint !== '' && caller.fingerprint === fingerprint);
}

/**
 * The record a change leads to. Type never changes; a caller that is not administrator may change the name and the
 * certificate itself, never what it may do.
 * @throws unauthorized
 */
export function changeRecord(
  caller: Caller,
  current: CertificateRecord,
  wanted: Required<Omit<CertificatePut, 'certificate'>>,
): Omit<CertificateRecord, 'certificate' | 'fingerprint'> {
  if (typeOf(wanted.type) !== current.type) throw errors.unauthorized('The certificate type cannot be changed');
  const { restricted, projects } = current;
  if (!isAdmin(caller)) {
    const same = wanted.restricted === restricted && sameSet(wanted.projects, projects);
    if (!same) throw errors.unauthorized('Only an administrator can change what a certificate may do');
    return { name: wanted.name, type: current.type, restricted, projects };
  }
  return {
    name: wanted.name,
    type: current.type,
    restricted: wanted.restricted,
    projects: [...new Set(wanted.projects)],
  };
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item) => b.includes(item));
}
