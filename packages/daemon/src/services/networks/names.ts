import { errors } from '../../core/errors.ts';

/** LXD's rule for names that become an interface of the host. @throws bad-request */
export function checkNetworkName(name: string): void {
  if (name === '') throw errors.badRequest('No name provided');
  const problem = interfaceNameProblem(name);
  if (problem !== undefined) throw errors.badRequest(problem);
}

/** Why the kernel or LXD would not take this interface name; undefined when it is good. */
export function interfaceNameProblem(name: string): string | undefined {
  if (name.length < 2) return 'Network interface is too short (minimum 2 characters)';
  if (name.length > 15) return 'Network interface is too long (maximum 15 characters)';
  if (!/^[-_a-zA-Z0-9.]+$/.test(name) || name === '..') return 'Network interface contains invalid characters';
  return undefined;
}
