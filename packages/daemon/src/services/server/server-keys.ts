import { findKey, serverConfig, validateConfig } from '@keelson/api';
import { errors } from '../../core/errors.ts';

const SECRETS = new Set(['core.trust_password']);

/** Shown as `true` when set, never as its value; stored as a hash. */
export function isSecretKey(key: string): boolean {
  return SECRETS.has(key);
}

/** @throws bad-request with LXD's text for an unknown key or a wrong value. An empty value unsets the key. */
export function checkServerKey(key: string, value: string): void {
  const [problem] = validateConfig(serverConfig, { [key]: value });
  if (problem !== undefined) throw errors.badRequest(problem.message);
}

/** The value in force. */
export function serverKeyValue(config: Readonly<Record<string, string>>, key: string): string {
  return config[key] ?? findKey(serverConfig, key)?.default ?? '';
}
