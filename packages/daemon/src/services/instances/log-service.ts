import { constants } from 'node:fs';
import { type FileHandle, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errors, type KeelsonError } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import type { InstanceType } from '../../state/records/instance.ts';
import type { ChangeRequest } from './changer.ts';
import type { InstanceContext } from './context.ts';

const FIXED = new Set(['lxc.log', 'lxc.conf', 'qemu.log', 'console.log', 'edk2.log']);
const FAMILIES = ['exec_', 'migration_', 'snapshot_', 'start_'];

/** Log files of instances and recorded output of commands. */
export class InstanceLogService {
  readonly #context: InstanceContext;

  constructor(context: InstanceContext) {
    this.#context = context;
  }

  /** URLs of the files there are. */
  async list(project: string, name: string, type?: InstanceType): Promise<string[]> {
    this.#context.require(project, name, type);
    const files = await readdir(this.#folder(project, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    return files
      .filter(isLogName)
      .sort()
      .map((file) => this.#context.url(project, name, `/logs/${encodeURIComponent(file)}`));
  }

  /** The open file. @throws bad-request for a name no log has, not-found. */
  async open(project: string, name: string, file: string, request: ChangeRequest = {}): Promise<FileHandle> {
    const record = this.#context.require(project, name, request.type);
    if (!isLogName(file)) throw errors.badRequest(`log file name ${file} not valid`);
    const handle = await this.#openFile(join(this.#folder(project, name), file), file);
    this.#context.lifecycle('instance-log-retrieved', record, request, { context: { file } });
    return handle;
  }

  async delete(project: string, name: string, file: string, request: ChangeRequest = {}): Promise<void> {
    const record = this.#context.require(project, name, request.type);
    if (!isLogName(file)) throw errors.badRequest(`log file name ${file} not valid`);
    if (FIXED.has(file)) throw errors.badRequest('lxc.log and lxc.conf may not be deleted');
    await rm(join(this.#folder(project, name), file)).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'ENOENT' ? noLog(file) : error;
    });
    this.#context.lifecycle('instance-log-deleted', record, request, { context: { file } });
  }

  async #openFile(path: string, file: string): Promise<FileHandle> {
    try {
      return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      // An instance that never started has this one too: `lxc info --show-log` asks for it.
      if (file === 'lxc.log') return open('/dev/null', constants.O_RDONLY);
      throw noLog(file);
    }
  }

  #folder(project: string, name: string): string {
    return this.#context.deps.paths.logs(instanceKey(project, name));
  }
}

function noLog(file: string): KeelsonError {
  return errors.notFound(`Log file "${file}" not found`);
}

/** Only these can be read through the API; a name is never a path. */
function isLogName(file: string): boolean {
  if (file.includes('/') || file.includes('..')) return false;
  return FIXED.has(file) || FAMILIES.some((prefix) => file.startsWith(prefix));
}
