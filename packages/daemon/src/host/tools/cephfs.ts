import { constants } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { errors } from '../../core/errors.ts';
import { loadModule } from '../kernel-module.ts';
import { answerOf } from '../reach.ts';
import { COMMAND_ENVIRONMENT, CommandError, run } from '../run.ts';
import { type CephAccess, clientArguments, CONNECT_TIMEOUT } from './ceph.ts';

/** What mounts a CephFS: the kernel, or a process. */
export type CephfsClient = 'kernel' | 'fuse';

export interface CephfsMount extends CephAccess {
  readonly fileSystem: string;
  /** Folder inside the file system, from `/`. */
  readonly folder: string;
  /** Cache on the local disk (kernel only). */
  readonly fscache: boolean;
}

/** Command line that mounts a CephFS at `target`. */
export function mountCommand(client: CephfsClient, mount: CephfsMount, target: string): readonly string[] {
  const { conf, user, fileSystem, folder, fscache } = mount;
  if (client === 'kernel') {
    // The helper of mount(8) takes addresses and the secret out of the cluster's own files.
    const options = [`name=${user}`, `conf=${conf}`, `mds_namespace=${fileSystem}`];
    const all = [...options, `mount_timeout=${CONNECT_TIMEOUT}`, ...(fscache ? ['fsc'] : [])];
    return ['mount', '-t', 'ceph', '-o', all.join(','), '--', `:${folder}`, target];
  }
  // ACLs are the server's to keep, so that it must judge permissions too.
  const judge = ['--client_acl_type=posix_acl', '--fuse_default_permissions=false'];
  const where = ['--client_fs', fileSystem, '-r', folder];
  // A file for the pid would keep a second mount by the same user from starting.
  return ['ceph-fuse', ...clientArguments(mount), ...judge, '--log-to-stderr=false', '--pid_file=', ...where, target];
}

/** The client this host has, or why it has none. */
export async function cephfsClient(): Promise<{ readonly client: CephfsClient } | { readonly reason: string }> {
  await loadModule('ceph');
  const fileSystems = await readFile('/proc/filesystems', 'utf8').catch(() => '');
  if (/\tceph$/m.test(fileSystems) && (await runs('/sbin/mount.ceph'))) return { client: 'kernel' };
  if (!(await runs('/usr/bin/ceph-fuse')))
    return { reason: 'the kernel has no ceph or the tools are not installed (ceph-common), and there is no ceph-fuse' };
  const fuse = await access('/dev/fuse').then(
    () => true,
    () => false,
  );
  return fuse ? { client: 'fuse' } : { reason: 'the kernel has neither ceph nor fuse' };
}

/** @throws not-found when the folder or the file system is not there, unavailable when the cluster does not answer. */
export async function mountCephfs(client: CephfsClient, mount: CephfsMount, target: string): Promise<void> {
  const [command = '', ...args] = mountCommand(client, mount, target);
  try {
    await run(command, args, { env: COMMAND_ENVIRONMENT, timeout: 3 * CONNECT_TIMEOUT * 1000 }); // ceph-fuse stays
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    if (/No such file or directory/.test(error.stderr) && !/keyring/.test(error.stderr))
      throw errors.notFound(`CephFS "${mount.fileSystem}" has no folder "${mount.folder}"`, error);
    throw errors.unavailable(`CephFS "${mount.fileSystem}" cannot be mounted: ${reasonOf(error, mount)}`, error);
  }
}

function reasonOf({ stderr }: CommandError, { user }: CephfsMount): string {
  if (/no keyring found|unable to find a keyring/.test(stderr)) return `there is no keyring of the user "${user}"`;
  const lines = stderr.split('\n').map((line) => line.trim());
  const telling = lines.filter((line) => line !== '' && !/newargv|starting ceph client/.test(line));
  return telling.at(-1)?.replace(/^\S+ [0-9a-f]+ -1 /, '') ?? 'no answer from the cluster';
}

/** Milliseconds a mounted CephFS has for an answer. */
const ANSWER_TIMEOUT = 5000;

/** A question only the metadata server can answer; the probe of a mounted CephFS. @throws as `answerOf`. */
export async function askCephfs(path: string): Promise<void> {
  await answerOf('ls', ['-1U', '--', `${path}/.snap`], ANSWER_TIMEOUT);
}

/** Bytes of the file system at `path`. @throws as `answerOf`. */
export async function cephfsSpace(path: string): Promise<{ used: number; total: number }> {
  const text = await answerOf('stat', ['--file-system', '--format=%S %b %f', '--', path], ANSWER_TIMEOUT);
  const [size = 0, blocks = 0, free = 0] = text.trim().split(' ').map(Number);
  return { used: size * (blocks - free), total: size * blocks };
}

const QUOTA = 'ceph.quota.max_bytes';

/** Limit in bytes of the folder, or undefined. */
export async function folderQuota(path: string): Promise<number | undefined> {
  const value = await attribute(path, QUOTA);
  return value === undefined || value === 0 ? undefined : value;
}

export async function setFolderQuota(path: string, bytes: number | undefined): Promise<void> {
  await run('setfattr', ['-n', QUOTA, '-v', String(bytes ?? 0), '--', path]);
}

/** Bytes below the folder, some seconds late. */
export async function folderBytes(path: string): Promise<number | undefined> {
  return attribute(path, 'ceph.dir.rbytes');
}

async function attribute(path: string, name: string): Promise<number | undefined> {
  const args = ['--absolute-names', '--only-values', '-n', name, '--', path];
  const { code, stdout } = await run('getfattr', args, { ok: [0, 1] });
  return code === 0 && stdout !== '' ? Number(stdout) : undefined;
}

function runs(program: string): Promise<boolean> {
  return access(program, constants.X_OK).then(
    () => true,
    () => false,
  );
}
