import { names } from '@keelson/api';
import { checkValue } from '../../core/check-value.ts';
import { errors } from '../../core/errors.ts';

/** LXD's rule for names that become an interface of the host. @throws bad-request */
export function checkNetworkName(name: string): void {
  if (name === '') throw errors.badRequest('No name provided');
  checkValue(names.interfaceName, name);
}
