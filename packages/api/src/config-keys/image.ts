import * as v from '../values/index.ts';
import { type ConfigTable, key } from './table.ts';

/** Properties of an image. Any name is allowed; these have a meaning. */
export const imageProperties: ConfigTable = {
  noun: 'image',
  keys: [
    key('architecture', v.anyText, 'Architecture as the distribution calls it.'),
    key('description', v.anyText, 'What the image is, in one line.'),
    key('name', v.anyText, 'Name of the image.'),
    key('os', v.anyText, 'Operating system.'),
    key('release', v.anyText, 'Release of the operating system.'),
    key('serial', v.anyText, 'Build of the image.'),
    key('variant', v.anyText, 'Variant of the image.'),
    key('requirements.cgroup', v.anyText, 'v1 when the system cannot run under cgroup v2.'),
    key('requirements.secureboot', v.anyText, 'false when the image cannot boot with secure boot.'),
    key('*', v.anyText, 'Free text.'),
  ],
  unknown: (name) => `Invalid image property ${v.quote(name)}`,
  invalid: (name, _value, problem) => `Invalid value for image property ${v.quote(name)}: ${problem}`,
};
