import { errors } from '../../../core/errors.ts';

/** Calls that act on the whole host or look past the guest's own file tree. They look absent (ENOSYS) to the guest. */
const DENIED = ['kexec_load', 'open_by_handle_at', 'init_module', 'finit_module', 'delete_module'];

/** 32-bit and x32 entry points of a 64-bit kernel. */
const COMPAT = [
  ...[
    ...['rt_sigaction', 'ioctl', 'readv', 'writev', 'recvfrom', 'sendmsg', 'recvmsg', 'ptrace', 'rt_sigpending'],
    ...['rt_sigtimedwait', 'rt_sigqueueinfo', 'sigaltstack', 'timer_create', 'mq_notify', 'kexec_load', 'waitid'],
    ...['set_robust_list', 'get_robust_list', 'vmsplice', 'move_pages', 'preadv64', 'pwritev64', 'rt_tgsigqueueinfo'],
    ...['recvmmsg', 'sendmmsg', 'process_vm_readv', 'process_vm_writev', 'setsockopt', 'getsockopt', 'io_setup'],
    'io_submit',
  ].map((name) => `compat_sys_${name}`),
  ...['rt_sigreturn', 'execve', 'execveat'].map((name) => `stub_x32_${name}`),
];

const isTrue = (value: string | undefined): boolean => value !== undefined && /^(true|1|yes|on)$/i.test(value);
const isFalse = (value: string | undefined): boolean => value !== undefined && /^(false|0|no|off)$/i.test(value);

/**
 * liblxc seccomp policy (version 2) for the instance's `security.syscalls.*` keys; undefined when nothing is filtered.
 * @throws bad-request when a rule holds anything but what the policy language knows.
 */
export function seccompPolicy(security: Readonly<Record<string, string>>, architecture: string): string | undefined {
  const allow = security['security.syscalls.allow'] ?? security['security.syscalls.whitelist'] ?? '';
  if (allow.trim() !== '') return `2\nallowlist\n[all]\n${rules(allow)}`;
  const sections: string[] = [];
  if (!isFalse(security['security.syscalls.deny_default'] ?? security['security.syscalls.blacklist_default'])) {
    sections.push('reject_force_umount\n[all]\n', ...DENIED.map((name) => `${name} errno 38\n`));
  }
  if (isTrue(security['security.syscalls.deny_compat'] ?? security['security.syscalls.blacklist_compat'])) {
    if (architecture !== 'x86_64') throw errors.badRequest('security.syscalls.deny_compat is only supported on x86_64');
    sections.push('[x86_64]\n', ...COMPAT.map((name) => `${name} errno 38\n`));
  }
  const deny = security['security.syscalls.deny'] ?? security['security.syscalls.blacklist'] ?? '';
  if (deny.trim() !== '') sections.push(`[all]\n${rules(deny)}`);
  return sections.length === 0 ? undefined : `2\ndenylist\n${sections.join('')}`;
}

function rules(text: string): string {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  for (const line of lines) {
    if (!/^(\[[a-z0-9_]+\]|reject_force_umount|[a-z][a-z0-9_]*( [\w<>=!&|,.\-[\] ]+)?)$/.test(line))
      throw errors.badRequest(`Invalid seccomp rule ${JSON.stringify(line)}`);
  }
  return `${lines.join('\n')}\n`;
}
