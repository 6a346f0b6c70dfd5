import { readFile } from 'node:fs/promises';
import { arch, hostname, machine, release, type } from 'node:os';

/** What the machine says about itself. */
export interface MachineFacts {
  readonly kernel: string;
  readonly kernelVersion: string;
  /** As `uname -m` says. */
  readonly architecture: string;
  /** Architectures its guests may have, the own one first. */
  readonly architectures: readonly string[];
  readonly osName: string;
  readonly osVersion: string;
  readonly hostname: string;
  readonly kernelFeatures: Readonly<Record<string, string>>;
}

const PERSONALITIES: Readonly<Record<string, readonly string[]>> = {
  x86_64: ['x86_64', 'i686'],
  aarch64: ['aarch64', 'armv8l'],
};

export async function readMachineFacts(): Promise<MachineFacts> {
  const os = parseOsRelease(await readFile('/etc/os-release', 'utf8').catch(() => ''));
  const architecture = machine() === 'unknown' ? arch() : machine();
  return {
    kernel: type(),
    kernelVersion: release(),
    architecture,
    architectures: PERSONALITIES[architecture] ?? [architecture],
    osName: os['NAME'] ?? '',
    osVersion: os['VERSION_ID'] ?? '',
    hostname: hostname(),
    kernelFeatures: kernelFeatures(release()),
  };
}

/** LXD's names; each stands for a version of the kernel. */
function kernelFeatures(version: string): Record<string, string> {
  const since = (wanted: number): string => String(versionNumber(version) >= wanted);
  return {
    idmapped_mounts: since(5_012),
    netnsid_getifaddrs: since(4_020),
    seccomp_listener: since(5_000),
    seccomp_listener_continue: since(5_005),
    shiftfs: 'false',
    uevent_injection: since(4_018),
    unpriv_fscaps: since(4_014),
  };
}

/** 5.12 is 5012. */
function versionNumber(version: string): number {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major * 1000 + minor;
}

export function parseOsRelease(text: string): Record<string, string> {
  const lines = text.split('\n').map((line) => /^([A-Z_]+)=(?:"(.*)"|'(.*)'|(.*))$/.exec(line));
  return Object.fromEntries(
    lines.flatMap((match) => (match === null ? [] : [[match[1] ?? '', match[2] ?? match[3] ?? match[4] ?? '']])),
  );
}
