import { errors } from '../../core/errors.ts';

/** A key of the server's configuration. */
export interface ServerKey {
  readonly type: 'string' | 'bool' | 'integer';
  readonly default: string;
  /** Shown as `true` when set, never as its value. */
  readonly secret?: true;
  readonly description: string;
  /** Reason why a value is not allowed; undefined when it is. */
  readonly refuse?: (value: string) => string | undefined;
}

const COMPRESSIONS = ['none', 'gzip', 'bzip2', 'xz', 'lzma', 'zstd'];

/** Every key `PUT /1.0` takes, beside `user.*`. */
export const SERVER_KEYS: Readonly<Record<string, ServerKey>> = {
  'backups.compression_algorithm': {
    type: 'string',
    default: 'gzip',
    description: 'Compression of instance and volume backups',
    refuse: compression,
  },
  'core.https_address': { type: 'string', default: '', description: 'Address the API listens on over HTTPS' },
  'core.proxy_http': { type: 'string', default: '', description: 'HTTP proxy for image downloads' },
  'core.proxy_https': { type: 'string', default: '', description: 'HTTPS proxy for image downloads' },
  'core.proxy_ignore_hosts': {
    type: 'string',
    default: '',
    description: 'Hosts reached without proxy, separated by commas',
  },
  'core.remote_token_expiry': {
    type: 'string',
    default: '',
    description: 'Time after which an unused client token ends',
  },
  'core.shutdown_timeout': {
    type: 'integer',
    default: '5',
    description: 'Minutes to wait for running operations when the server stops',
  },
  'core.trust_password': {
    type: 'string',
    default: '',
    secret: true,
    description: 'Password with which a client can add its own certificate',
  },
  'images.auto_update_cached': { type: 'bool', default: 'true', description: 'Keep cached images up to date' },
  'images.auto_update_interval': {
    type: 'integer',
    default: '6',
    description: 'Hours between looks for newer images; 0 turns them off',
  },
  'images.compression_algorithm': {
    type: 'string',
    default: 'gzip',
    description: 'Compression of published images',
    refuse: compression,
  },
  'images.default_architecture': {
    type: 'string',
    default: '',
    description: 'Architecture used when a server of several has the image',
  },
  'images.remote_cache_expiry': {
    type: 'integer',
    default: '10',
    description: 'Days after which an unused cached image is deleted',
  },
  'storage.backups_volume': { type: 'string', default: '', description: 'Custom volume that holds backups' },
  'storage.images_volume': { type: 'string', default: '', description: 'Custom volume that holds image files' },
};

/** @throws bad-request with LXD's text for an unknown key or a wrong value. An empty value unsets the key. */
export function checkServerKey(key: string, value: string): void {
  if (/^user\.[^\s/]+$/.test(key)) return;
  const known = Object.hasOwn(SERVER_KEYS, key) ? SERVER_KEYS[key] : undefined;
  const shown = known?.secret === true ? '***' : value;
  const reason = known === undefined ? 'unknown key' : value === '' ? undefined : refusal(known, value);
  if (reason !== undefined) throw errors.badRequest(`cannot set '${key}' to '${shown}': ${reason}`);
}

/** The value in force. */
export function serverKeyValue(config: Readonly<Record<string, string>>, key: string): string {
  return config[key] ?? SERVER_KEYS[key]?.default ?? '';
}

function refusal(key: ServerKey, value: string): string | undefined {
  if (key.type === 'integer' && !/^-?\d{1,18}$/.test(value)) return 'invalid integer';
  if (key.type === 'bool' && !/^(true|false|1|0|yes|no|on|off)$/i.test(value)) return 'invalid boolean';
  return key.refuse?.(value);
}

function compression(value: string): string | undefined {
  return COMPRESSIONS.includes(value) ? undefined : `expected one of ${COMPRESSIONS.join(', ')}`;
}
