import { errors } from '../../../core/errors.ts';

/** Keys the daemon itself relies on: another value would hide the guest from it. */
const OWNED = [
  'lxc.log.file',
  'lxc.logfile',
  'lxc.log.syslog',
  'lxc.syslog',
  'lxc.ephemeral',
  'lxc.uts.name',
  'lxc.rootfs.path',
  'lxc.rootfs',
  'lxc.idmap',
  'lxc.id_map',
  'lxc.cgroup.dir',
  'lxc.cgroup.relative',
  'lxc.hook.post-stop',
  'lxc.hook.version',
  'lxc.console.logfile',
  'lxc.monitor',
  'lxc.rebootsignal',
  'lxc.group',
];

const NET_KEYS = ['ipv4.address', 'ipv4.gateway', 'ipv6.address', 'ipv6.gateway'];

/**
 * Parses the `raw.lxc` key: one `lxc.… = value` per line, empty lines and `#` comments left out.
 * @throws bad-request naming the line that is not one, or the key that may not be set.
 */
export function parseRawLxc(text: string): { key: string; value: string }[] {
  const entries: { key: string; value: string }[] = [];
  for (const raw of text.split('\n')) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const match = /^([A-Za-z0-9_.-]+)\s*=\s*(.*)$/.exec(line);
    if (match === null) throw errors.badRequest(`Invalid raw.lxc line: ${line}`);
    const [, key = '', value = ''] = match;
    checkKey(key.toLowerCase());
    if (hasControl(value)) throw errors.badRequest(`Invalid raw.lxc value of ${key}: control character`);
    entries.push({ key, value });
  }
  return entries;
}

function checkKey(key: string): void {
  if (!key.startsWith('lxc.')) throw errors.badRequest(`Invalid raw.lxc key "${key}"`);
  if (OWNED.some((owned) => key === owned || key.startsWith(`${owned}.`)))
    throw errors.badRequest(`Setting ${key} is not allowed`);
  if (key.startsWith('lxc.network.') || key.startsWith('lxc.net.')) {
    const field = /^lxc\.(?:net|network)\.\d+\.(.+)$/.exec(key)?.[1];
    if (field === undefined || !NET_KEYS.includes(field))
      throw errors.badRequest('Only interface-specific ipv4/ipv6 lxc.net. keys are allowed');
  }
}

/** Characters that would end a line of the configuration, or hide in it. */
export function hasControl(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code < 0x20 || code === 0x7f) return true;
  }
  return false;
}
