/**
 * @typedef {object} Missing
 * @property {string} what the thing that is not there
 * @property {string} why what was seen
 * @property {string} remedy how to get it
 */

const FEATURES = [
  ['CONFIG_OVERLAY_FS', 'overlayfs', 'overlay'],
  ['CONFIG_USER_NS', 'user namespaces', undefined],
  ['CONFIG_VETH', 'veth network interfaces', 'veth'],
  ['CONFIG_BRIDGE', 'bridges', 'bridge'],
  ['CONFIG_NF_TABLES', 'nftables', 'nf_tables'],
];
const CONTROLLERS = ['cpu', 'memory', 'pids'];

/** Is `release` ("6.1.0-18-amd64") at least `major.minor`? */
export function kernelAtLeast(release, major, minor) {
  const [a = 0, b = 0] = release.split('.').map((part) => Number.parseInt(part, 10));
  return a > major || (a === major && b >= minor);
}

function machine(facts) {
  const missing = [];
  if (facts.platform !== 'linux') {
    missing.push({ what: 'Linux', why: `this is ${facts.platform}`, remedy: 'use a Linux machine or virtual machine' });
  }
  if (!['x64', 'arm64'].includes(facts.arch)) {
    missing.push({ what: 'an x86-64 or arm64 processor', why: `this is ${facts.arch}`, remedy: 'use another machine' });
  }
  if (!facts.debian) {
    missing.push({ what: 'Debian', why: 'apt-get and dpkg are not there', remedy: 'use Debian 12 or newer' });
  }
  if (facts.uid !== 0) {
    missing.push({
      what: 'root',
      why: `running as user ${facts.uid}`,
      remedy: 'run it as root, for example with sudo',
    });
  }
  return missing;
}

function kernel(facts) {
  const missing = [];
  if (!kernelAtLeast(facts.kernel, 5, 19)) {
    const why = `kernel ${facts.kernel} is older than 5.19`;
    missing.push({ what: 'idmapped mounts below overlayfs', why, remedy: 'upgrade to Debian 12 or newer and reboot' });
  }
  for (const [option, what, module] of FEATURES) {
    if (facts.kernelConfig === undefined) continue;
    if (new RegExp(`^${option}=[ym]$`, 'mu').test(facts.kernelConfig)) continue;
    const remedy = `use a kernel built with ${option}${module ? ` (module ${module})` : ''}, such as Debian's linux-image`;
    missing.push({ what, why: `the kernel was built without ${option}`, remedy });
  }
  if (facts.maxUserNamespaces === '0') {
    const remedy = 'run: sysctl -w user.max_user_namespaces=15000';
    missing.push({ what: 'user namespaces', why: 'user.max_user_namespaces is 0', remedy });
  }
  return missing;
}

function cgroups(facts) {
  return CONTROLLERS.filter((name) => !facts.controllers.includes(name)).map((name) => ({
    what: `cgroup controller ${name}`,
    why: 'it is in no mounted cgroup hierarchy',
    remedy: `mount it, or boot with cgroup_enable=${name} on the kernel command line`,
  }));
}

/**
 * What this machine lacks to run containers; empty when it can.
 * @param {import('./host-facts.mjs').HostFacts} facts
 * @returns {Missing[]}
 */
export function missingFeatures(facts) {
  return facts.platform === 'linux' ? [...machine(facts), ...kernel(facts), ...cgroups(facts)] : machine(facts);
}

/** One line for each missing thing: what, what was seen, how to get it. */
export function describeMissing(missing) {
  return missing.map(({ what, why, remedy }) => `  - ${what}: ${why}. To get it: ${remedy}.`).join('\n');
}
