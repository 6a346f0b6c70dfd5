import { setFlagsFromString } from 'node:v8';

const LINEAR = 'l';

/**
 * A regular expression that a caller brought: runs in time linear to the text, so no pattern can stall the daemon.
 * Undefined when the pattern is not valid or needs more than that (look-around, back references).
 */
export function linearRegExp(pattern: string): RegExp | undefined {
  setFlagsFromString('--enable-experimental-regexp-engine'); // makes V8 accept the flag `l`; repeating it changes nothing
  try {
    return new RegExp(pattern, LINEAR);
  } catch {
    return undefined;
  }
}
