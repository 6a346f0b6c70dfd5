import { expect, it } from 'vitest';
import { setDevices, setValues } from './set-values.ts';

it('leaves out what is empty', () => {
  expect(setValues({ a: '1', b: '', c: '0' })).toEqual({ a: '1', c: '0' });
  expect(setDevices({ d: { type: 'disk', size: '' }, e: {} })).toEqual({ d: { type: 'disk' }, e: {} });
});
