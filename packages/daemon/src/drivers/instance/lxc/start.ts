import { chmod, chown, mkdir, open, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { identify, type ProcessIdentity, sendSignal } from '../../../host/proc.ts';
import { CommandError } from '../../../host/run.ts';
import { makeDevice } from '../../../host/tools/mknod.ts';
import { lxcStart } from '../../../host/tools/lxc.ts';
import type { StartSpec, UnixDeviceSpec } from '../contract.ts';
import { type ConfigFiles, type HostFacts, lxcConfig } from './config.ts';
import { withBlockDevices } from './disk-limits.ts';
import type { LxcFiles } from './files.ts';
import { initOf } from './guests.ts';
import { seccompPolicy } from './seccomp.ts';
import { stageMounts } from './staged-mounts.ts';

const SIGKILL = 9;

/** Writes everything `lxc-start` reads. @throws bad-request naming what cannot be written. */
export async function writeGuestFiles(files: LxcFiles, spec: StartSpec, host: HostFacts): Promise<void> {
  const { key } = spec;
  const log = join(spec.logDir, 'lxc.log');
  const console = join(spec.logDir, 'console.log');
  const policy = seccompPolicy(spec.security, spec.architecture);
  const devices: Record<string, string> = {};
  await mkdir(files.folder(key), { recursive: true, mode: 0o711 });
  const owner = { key, idBase: spec.privileged ? 0 : (spec.idRange?.base ?? 0) };
  for (const device of spec.unixDevices) devices[device.device] = await makeDeviceFile(files, owner, device);
  const configFiles: ConfigFiles = {
    log,
    console,
    seccomp: policy === undefined ? undefined : files.seccomp(key),
    postStopHook: files.hook,
    devices,
    cgroup: { payload: files.payload(key), monitor: files.monitor(key) },
  };
  const staged = await stageMounts(files, spec);
  const mounts = await Promise.all(staged.map(async (mount) => ({ ...mount, kind: await kindOf(mount) })));
  const limits = await withBlockDevices(spec.limits);
  const text = lxcConfig({ ...spec, mounts, limits }, host, configFiles);
  await rename(log, `${log}.old`).catch(() => undefined);
  await Promise.all([
    writeFile(files.config(key), text, { mode: 0o600 }),
    writeFile(join(spec.logDir, 'lxc.conf'), text, { mode: 0o600 }),
    policy === undefined ? undefined : writeFile(files.seccomp(key), policy, { mode: 0o600 }),
    rm(console, { force: true }),
    rm(`${console}.1`, { force: true }),
    rm(files.logLink(key), { force: true }).then(() => symlink(spec.logDir, files.logLink(key))),
  ]);
}

async function kindOf(mount: StartSpec['mounts'][number]): Promise<'folder' | 'file'> {
  if (mount.kind !== undefined) return mount.kind;
  const found = await stat(mount.source).catch(() => undefined);
  return found === undefined || found.isDirectory() ? 'folder' : 'file';
}

/** A device file on the host that is bound into the guest, owned by the guest's ids. Returns its path. */
export async function makeDeviceFile(
  files: LxcFiles,
  guest: { readonly key: string; readonly idBase: number },
  device: UnixDeviceSpec,
): Promise<string> {
  const folder = files.deviceFolder(guest.key);
  const path = join(folder, `unix.${encodeURIComponent(device.device)}`);
  await mkdir(folder, { recursive: true, mode: 0o711 });
  await rm(path, { force: true });
  await makeDevice(path, device);
  await chown(path, guest.idBase + device.uid, guest.idBase + device.gid);
  await chmod(path, device.mode & 0o777);
  return path;
}

/**
 * Runs `lxc-start`. On failure nothing of this start runs and the error carries the end of liblxc's log.
 * @throws KeelsonError internal, or the abort reason.
 */
export async function runStart(
  files: LxcFiles,
  spec: StartSpec,
  options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
): Promise<{ monitor: ProcessIdentity; init: ProcessIdentity }> {
  const { key } = spec;
  try {
    await lxcStart({
      lxcPath: files.root,
      name: key,
      config: files.config(key),
      pidFile: files.pidFile(key),
      timeout: options.timeoutMs,
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    const found = await monitorOf(files, key);
    if (found !== undefined) return found;
    throw new Error('its init ended at once');
  } catch (error) {
    const monitor = await monitorIdentity(files, key);
    if (monitor !== undefined) sendSignal(monitor, SIGKILL);
    options.signal?.throwIfAborted();
    throw await startError(spec, error);
  }
}

/** Monitor and init of a started guest, by its pid file. */
async function monitorOf(
  files: LxcFiles,
  key: string,
): Promise<{ monitor: ProcessIdentity; init: ProcessIdentity } | undefined> {
  const monitor = await monitorIdentity(files, key);
  const init = monitor === undefined ? undefined : initOf(monitor.pid);
  return monitor === undefined || init === undefined ? undefined : { monitor, init };
}

async function monitorIdentity(files: LxcFiles, key: string): Promise<ProcessIdentity | undefined> {
  const text = await readFile(files.pidFile(key), 'utf8').catch(() => '');
  return /^\d+$/.test(text.trim()) ? identify(Number(text)) : undefined;
}

async function startError(spec: StartSpec, cause: unknown): Promise<Error> {
  const lines = await lastErrors(join(spec.logDir, 'lxc.log'));
  const reason = cause instanceof CommandError ? 'lxc-start failed' : cause instanceof Error ? cause.message : 'failed';
  const detail = lines.length === 0 ? '' : `:\n${lines.join('\n')}`;
  return errors.internal(`Failed to start instance "${spec.name}": ${reason}${detail}`, cause);
}

const TAIL = 16 * 1024;

/** The last errors of liblxc's log, without time stamps and source positions; at most eight. */
async function lastErrors(path: string): Promise<string[]> {
  const file = await open(path, 'r').catch(() => undefined);
  if (file === undefined) return [];
  try {
    const { size } = await file.stat();
    const buffer = Buffer.alloc(Math.min(size, TAIL));
    await file.read(buffer, 0, buffer.length, Math.max(0, size - TAIL));
    return parseErrors(buffer.toString('utf8'));
  } finally {
    await file.close();
  }
}

export function parseErrors(text: string): string[] {
  return text
    .split('\n')
    .map((line) => / ERROR\s+\S+ - [^:]+:(\w+):\d+ - (.*)$/.exec(line))
    .filter((match) => match !== null)
    .map((match) => `${match[1]}: ${match[2]}`)
    .slice(-8);
}
