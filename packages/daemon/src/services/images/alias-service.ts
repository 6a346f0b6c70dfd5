import type { ImageAliasesEntry, ImageAliasesPost } from '@keelson/api';
import { errors, isKeelsonError, type KeelsonError } from '../../core/errors.ts';
import { JsonCache, type RecordList } from '../../core/record-list.ts';
import type { Collection, Entry, Ledger } from '../../state/collection.ts';
import type { ImageAliasRecord } from '../../state/records/image.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import type { Events, Lifecycle } from '../events/contract.ts';
import { effectiveProject } from '../projects/scope.ts';
import type { AliasChange, ChangeOptions, ImageAliases } from './contract.ts';
import type { ImageCatalog } from './image-catalog.ts';
import { aliasUrl, checkAliasName } from './image-names.ts';

const ATTEMPTS = 5;

export interface AliasServiceOptions {
  readonly ledger: Ledger;
  readonly aliases: Collection<ImageAliasRecord>;
  readonly projects: Collection<ProjectRecord>;
  readonly catalog: ImageCatalog;
  readonly events: Events;
}

/** Names of images. */
export class ImageAliasService implements ImageAliases {
  readonly #options: AliasServiceOptions;
  readonly #records: Collection<ImageAliasRecord>;
  readonly #texts = new JsonCache<ImageAliasesEntry>();

  constructor(options: AliasServiceOptions) {
    this.#options = options;
    this.#records = options.aliases;
    this.#records.subscribe(({ id, after }) => {
      if (after === undefined) this.#texts.delete(id);
    });
  }

  list(project: string): RecordList {
    const home = this.#home(project);
    const entries = (): readonly Entry<ImageAliasRecord>[] => this.#records.list(`${home}/`);
    const rendered = (): readonly { value: ImageAliasesEntry; text: string }[] =>
      entries().map((entry) => this.#texts.get(entry.key, entry.revision, () => render(entry.value)));
    return {
      version: `${home}:${this.#records.revision}`,
      urls: () => entries().map(({ value }) => aliasUrl(value.name)),
      json: () => rendered().map(({ text }) => text),
      values: () => rendered().map(({ value }) => value),
    };
  }

  get(project: string, name: string, trusted: boolean): { alias: ImageAliasesEntry; etag: readonly unknown[] } {
    const { value } = this.#entry(project, name);
    if (!trusted && !this.#isPublic(value)) throw aliasNotFound();
    return { alias: render(value), etag: etagSource(value) };
  }

  async create(project: string, body: ImageAliasesPost, options: ChangeOptions = {}): Promise<string> {
    const { name, target, description = '' } = body;
    if (name === '' || target === '') throw errors.badRequest('name and target are required');
    checkAliasName(name);
    const home = this.#home(project);
    if (this.#options.catalog.alias(home, name) !== undefined) throw taken(name);
    const image = this.#options.catalog.byFingerprint(home, target).value;
    const record = { project: home, name, description, target: image.fingerprint, type: image.type };
    try {
      await this.#records.create(`${home}/${name}`, record);
    } catch (error) {
      throw isKeelsonError(error, 'conflict') ? taken(name) : error;
    }
    return this.#announce('image-alias-created', project, name, { ...by(options), context: { target: record.target } });
  }

  async put(project: string, name: string, body: AliasChange, options: ChangeOptions = {}): Promise<void> {
    this.#entry(project, name);
    if (body.target === undefined || body.target === '') throw errors.badRequest('The target field is required');
    await this.#change(project, name, { description: body.description ?? '', target: body.target }, options);
  }

  async patch(project: string, name: string, body: AliasChange, options: ChangeOptions = {}): Promise<void> {
    await this.#change(project, name, body, options);
  }

  async rename(project: string, name: string, newName: string, options: ChangeOptions = {}): Promise<string> {
    checkAliasName(newName);
    const home = this.#home(project);
    for (let attempt = 1; ; attempt++) {
      const entry = this.#entry(project, name);
      if (this.#options.catalog.alias(home, newName) !== undefined) throw taken(newName);
      const checks = [
        this.#records.unchanged(`${home}/${name}`, entry),
        this.#records.unchanged(`${home}/${newName}`, undefined),
      ];
      const writes = [
        this.#records.remove(`${home}/${name}`),
        this.#records.put(`${home}/${newName}`, { ...entry.value, name: newName }),
      ];
      try {
        await this.#options.ledger.transact(checks, writes);
        break;
      } catch (error) {
        if (!isKeelsonError(error, 'conflict') || attempt === ATTEMPTS) throw error;
      }
    }
    const context = { old_name: name };
    return this.#announce('image-alias-renamed', project, newName, { ...by(options), context });
  }

  async delete(project: string, name: string, options: ChangeOptions = {}): Promise<void> {
    const entry = this.#entry(project, name);
    options.precondition?.(etagSource(entry.value));
    if (!(await this.#records.delete(`${this.#home(project)}/${name}`))) throw aliasNotFound();
    this.#announce('image-alias-deleted', project, name, by(options));
  }

  async #change(project: string, name: string, change: AliasChange, options: ChangeOptions): Promise<void> {
    const home = this.#home(project);
    this.#entry(project, name);
    const image =
      change.target === undefined ? undefined : this.#options.catalog.byFingerprint(home, change.target).value;
    const { value } = await this.#records.update(`${home}/${name}`, (current) => {
      options.precondition?.(etagSource(current));
      return {
        ...current,
        description: change.description ?? current.description,
        ...(image === undefined ? {} : { target: image.fingerprint, type: image.type }),
      };
    });
    const context = { target: value.target };
    this.#announce('image-alias-updated', project, name, { ...by(options), context });
  }

  #entry(project: string, name: string): Entry<ImageAliasRecord> {
    const entry = this.#options.catalog.alias(this.#home(project), name);
    if (entry === undefined) throw aliasNotFound();
    return entry;
  }

  #isPublic({ project, target }: ImageAliasRecord): boolean {
    return this.#options.catalog.list(project).some(({ value }) => value.fingerprint === target && value.public);
  }

  #home(project: string): string {
    return effectiveProject(this.#options.projects, project, 'images');
  }

  #announce(action: string, project: string, name: string, details: Pick<Lifecycle, 'requestor' | 'context'>): string {
    const source = aliasUrl(name, project);
    this.#options.events.lifecycle(project, { action, source, ...details });
    return source;
  }
}

function render({ name, description, target, type }: ImageAliasRecord): ImageAliasesEntry {
  return { description, target, name, type };
}

function etagSource({ name, description, target, type }: ImageAliasRecord): readonly unknown[] {
  return [name, description, target, type];
}

function by({ requestor }: ChangeOptions): Pick<Lifecycle, 'requestor'> {
  return requestor === undefined ? {} : { requestor };
}

function taken(name: string): KeelsonError {
  return errors.conflict(`Alias "${name}" already exists`);
}

function aliasNotFound(): KeelsonError {
  return errors.notFound('Image alias not found');
}
