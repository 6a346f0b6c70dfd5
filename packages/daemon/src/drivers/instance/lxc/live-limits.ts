import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { Cgroup, type CgroupLayout } from '../../../host/cgroup.ts';
import type { LimitsSpec } from '../contract.ts';
import { cgroupVersions } from './host-facts.ts';
import { type CgroupSetting, liveSettings } from './limits.ts';

/** Brings a running guest's cgroup to these limits. @throws bad-request naming the value the kernel refuses. */
export async function applyLimits(layout: CgroupLayout, payload: Cgroup, limits: LimitsSpec): Promise<void> {
  const versions = cgroupVersions(layout);
  const current = { allCpus: await allCpus(layout), throttled: await throttledDevices(payload) };
  for (const setting of liveSettings(limits, versions, current)) {
    if (await isSet(payload, setting)) continue;
    await write(payload, setting).catch((error: unknown) => {
      if (setting.optional === true) return;
      throw errors.badRequest(`Cannot set ${setting.file} to ${setting.value} on the running instance`, error);
    });
  }
}

async function isSet(payload: Cgroup, setting: CgroupSetting): Promise<boolean> {
  return (await payload.read(setting.controller, setting.file))?.trim() === setting.value;
}

async function write(payload: Cgroup, setting: CgroupSetting): Promise<void> {
  try {
    await payload.write(setting.controller, setting.file, setting.value);
  } catch (error) {
    if (setting.controller !== 'cpuset' || setting.version !== 1) throw error;
    await writeCpusetTree(payload, setting);
  }
}

/** Version 1 refuses a set that a child group exceeds: the guest's own groups shrink first. */
async function writeCpusetTree(payload: Cgroup, setting: CgroupSetting): Promise<void> {
  const folder = payload.folder('cpuset');
  const names = folder === undefined ? [] : await readdir(folder, { withFileTypes: true, recursive: true });
  const below = names.filter((entry) => entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name));
  for (const child of below.sort((a, b) => b.length - a.length)) {
    const group = child.slice((folder ?? '').length + 1);
    await payload.write('cpuset', join(group, setting.file), setting.value);
  }
  await payload.write('cpuset', setting.file, setting.value);
}

async function allCpus(layout: CgroupLayout): Promise<string> {
  const root = new Cgroup(layout, '');
  const text = (await root.read('cpuset', 'cpuset.cpus')) ?? (await root.read('cpuset', 'cpuset.cpus.effective'));
  return text?.trim() ?? '';
}

async function throttledDevices(payload: Cgroup): Promise<string[]> {
  const files = ['read_bps', 'read_iops', 'write_bps', 'write_iops'].map((name) => `blkio.throttle.${name}_device`);
  const texts = await Promise.all([...files.map((file) => payload.read('blkio', file)), payload.read('io', 'io.max')]);
  const devices = texts.flatMap((text) => [...(text ?? '').matchAll(/^(\d+:\d+) /gm)].map((match) => match[1] ?? ''));
  return [...new Set(devices)];
}
