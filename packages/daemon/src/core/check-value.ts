import type { ValueType } from '@keelson/api';
import { errors } from './errors.ts';

/** @throws bad-request with the type's sentence when the value is not of it. */
export function checkValue(type: ValueType, value: string): void {
  const problem = type.check(value);
  if (problem !== undefined) throw errors.badRequest(problem);
}
