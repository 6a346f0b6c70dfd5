import type { CallOptions, ProgressOptions } from '../model.ts';
import { Download, nameOf } from './common.ts';
import { Part } from './part.ts';

/**
 * Backups of an instance or a custom volume: tarballs that the server keeps. Every operation throws
 * APIExtensionNotAvailable without the extension for them.
 */
export abstract class Backups<Record, Definition extends object> extends Part {
  /** @internal Extension that the server needs. */
  protected abstract readonly extension: string;

  /** Names of the backups. `GET …/backups` */
  async all(options: CallOptions = {}): Promise<string[]> {
    const path = await this.#path();
    return (await this.context.connection.get<string[]>(path, { signal: options.signal })).map(nameOf);
  }

  /** One backup's record. `GET …/backups/<backup>` @throws NotFound */
  async get(name: string, options: CallOptions = {}): Promise<Record> {
    return this.context.connection.get<Record>(await this.#path(name), { signal: options.signal });
  }

  /** Makes a backup on the server and waits until it is there. `POST …/backups` @throws APIException */
  async create(definition: Partial<Definition> = {}, options: ProgressOptions = {}): Promise<void> {
    await this.change('POST', await this.#path(), definition, options);
  }

  /** The backup as a tarball. `GET …/backups/<backup>/export` @throws NotFound */
  async export(name: string, options: CallOptions = {}): Promise<Download> {
    const path = await this.#path(name, 'export');
    return new Download(await this.context.connection.raw('GET', path, { signal: options.signal }));
  }

  /** Gives a backup another name. `POST …/backups/<backup>` @throws APIException when the name is taken */
  async rename(name: string, newName: string, options: CallOptions = {}): Promise<void> {
    await this.change('POST', await this.#path(name), { name: newName }, options);
  }

  /** Deletes a backup. `DELETE …/backups/<backup>` @throws NotFound */
  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.change('DELETE', await this.#path(name), undefined, options);
  }

  async #path(...parts: readonly string[]): Promise<string> {
    await this.context.assertExtension(this.extension);
    return this.path('backups', ...parts);
  }
}
