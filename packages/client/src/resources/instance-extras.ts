import type { ImageMetadata, InstanceBackup, InstanceBackupsPost } from '@keelson/api';
import type { CallOptions } from '../model.ts';
import { Download, nameOf } from './common.ts';
import { Part } from './part.ts';

/** `instance.backups`; the server needs the extension `container_backup`. */
export class InstanceBackups extends Part {
  /** Names of the backups. `GET /1.0/instances/<name>/backups` */
  async all(options: CallOptions = {}): Promise<string[]> {
    await this.context.assertExtension('container_backup');
    return (await this.context.connection.get<string[]>(this.path('backups'), { signal: options.signal })).map(nameOf);
  }

  /** `GET /1.0/instances/<name>/backups/<backup>` @throws NotFound */
  async get(name: string, options: CallOptions = {}): Promise<InstanceBackup> {
    return this.context.connection.get<InstanceBackup>(this.path('backups', name), { signal: options.signal });
  }

  /** Makes a backup on the server and waits until it is there. `POST /1.0/instances/<name>/backups` @throws APIException */
  async create(definition: InstanceBackupsPost = {}, options: CallOptions = {}): Promise<void> {
    await this.context.assertExtension('container_backup');
    await this.change('POST', this.path('backups'), definition, options);
  }

  /** The backup as a tarball. `GET /1.0/instances/<name>/backups/<backup>/export` @throws NotFound */
  async export(name: string, options: CallOptions = {}): Promise<Download> {
    const path = this.path('backups', name, 'export');
    return new Download(await this.context.connection.raw('GET', path, { signal: options.signal }));
  }

  /** `POST /1.0/instances/<name>/backups/<backup>` @throws APIException when the name is taken */
  async rename(name: string, newName: string, options: CallOptions = {}): Promise<void> {
    await this.change('POST', this.path('backups', name), { name: newName }, options);
  }

  /** `DELETE /1.0/instances/<name>/backups/<backup>` @throws NotFound */
  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.change('DELETE', this.path('backups', name), undefined, options);
  }
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
