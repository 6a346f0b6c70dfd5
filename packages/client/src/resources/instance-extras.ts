import type { ImageMetadata, InstanceBackup, InstanceBackupsPost } from '@keelson/api';
import type { CallOptions } from '../model.ts';
import { Backups } from './backups.ts';
import { nameOf } from './common.ts';
import { Part } from './part.ts';

/** `instance.backups`: `/1.0/instances/<name>/backups`; the server needs the extension `container_backup`. */
export class InstanceBackups extends Backups<InstanceBackup, InstanceBackupsPost> {
  protected readonly extension = 'container_backup';
}

/** `instance.logs`: the instance's log files on the host. */
export class InstanceLogs extends Part {
  /** Names of the files. `GET /1.0/instances/<name>/logs` */
  async all(options: CallOptions = {}): Promise<string[]> {
    return (await this.context.connection.get<string[]>(this.path('logs'), { signal: options.signal })).map(nameOf);
  }

  /** Content of a file. `GET /1.0/instances/<name>/logs/<file>` @throws NotFound */
  async get(name: string, options: CallOptions = {}): Promise<string> {
    return (await this.context.connection.raw('GET', this.path('logs', name), { signal: options.signal })).text();
  }

  /** `DELETE /1.0/instances/<name>/logs/<file>` @throws NotFound */
  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.change('DELETE', this.path('logs', name), undefined, options);
  }
}

/** `instance.templates` and the image metadata they belong to. */
export class InstanceTemplates extends Part {
  /** Content of the image's metadata.yaml. `GET /1.0/instances/<name>/metadata` */
  async metadata(options: CallOptions = {}): Promise<ImageMetadata> {
    return this.context.connection.get<ImageMetadata>(this.path('metadata'), { signal: options.signal });
  }

  /** `PUT /1.0/instances/<name>/metadata` @throws APIException */
  async putMetadata(metadata: ImageMetadata, options: CallOptions = {}): Promise<void> {
    await this.change('PUT', this.path('metadata'), metadata, options);
  }

  /** Names of the template files. `GET /1.0/instances/<name>/metadata/templates` */
  async all(options: CallOptions = {}): Promise<string[]> {
    const names = await this.context.connection.get<string[]>(this.#templates(), { signal: options.signal });
    return names.map((name) => (name.startsWith('/') ? nameOf(name) : name));
  }

  /** Content of a template. `GET /1.0/instances/<name>/metadata/templates?path=` @throws NotFound */
  async get(name: string, options: CallOptions = {}): Promise<string> {
    const request = { query: { path: name }, signal: options.signal };
    return (await this.context.connection.raw('GET', this.#templates(), request)).text();
  }

  /** Writes a template. `POST /1.0/instances/<name>/metadata/templates?path=` @throws APIException */
  async put(name: string, content: string, options: CallOptions = {}): Promise<void> {
    const headers = { 'Content-Type': 'application/octet-stream' };
    const request = { query: { path: name }, raw: content, headers, signal: options.signal };
    await this.context.connection.request('POST', this.#templates(), request);
  }

  /** `DELETE /1.0/instances/<name>/metadata/templates?path=` @throws NotFound */
  async delete(name: string, options: CallOptions = {}): Promise<void> {
    const request = { query: { path: name }, signal: options.signal };
    await this.context.connection.request('DELETE', this.#templates(), request);
  }

  #templates(): string {
    return this.path('metadata', 'templates');
  }
}
