import type { Image, ImagePut, ImagesPost } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { JsonCache, type RecordList } from '../../core/record-list.ts';
import type { Collection, Entry } from '../../state/collection.ts';
import type { ImageAliasRecord, ImageRecord } from '../../state/records/image.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import type { Events, Lifecycle, Requestor } from '../events/contract.ts';
import type { Operations, StartedOperation } from '../operations/contract.ts';
import { effectiveProject } from '../projects/scope.ts';
import type {
  ChangeOptions,
  CreateOptions,
  ImageExport,
  Images,
  ImageViewer,
  UploadOptions,
  UploadPart,
} from './contract.ts';
import { type ImageCatalog, imageEtag, imageNotFound } from './image-catalog.ts';
import type { ImageCreator } from './image-creator.ts';
import type { ImageDeletion } from './image-deletion.ts';
import { exportOf } from './image-export.ts';
import { checkProfiles, withoutEmpty } from './image-importer.ts';
import { imageUrl } from './image-names.ts';
import { ImageSecrets } from './image-secrets.ts';
import type { ImageFiles } from './ports.ts';

export interface ImageServiceOptions {
  readonly images: Collection<ImageRecord>;
  readonly aliases: Collection<ImageAliasRecord>;
  readonly profiles: Collection<ProfileRecord>;
  readonly projects: Collection<ProjectRecord>;
  readonly events: Events;
  readonly operations: Operations;
  readonly files: ImageFiles;
  readonly catalog: ImageCatalog;
  readonly creator: ImageCreator;
  readonly deletion: ImageDeletion;
  /** Fresh unguessable text. */
  readonly newSecret: () => string;
  readonly log: Log;
}

/** Images: what instances are made of. */
export class ImageService implements Images {
  readonly #options: ImageServiceOptions;
  readonly #catalog: ImageCatalog;
  readonly #secrets: ImageSecrets;
  readonly #texts = new JsonCache<Image>();

  constructor(options: ImageServiceOptions) {
    this.#options = options;
    this.#catalog = options.catalog;
    this.#secrets = new ImageSecrets(options.operations, options.newSecret);
    options.images.subscribe(({ id, after }) => {
      if (after === undefined) this.#texts.delete(id);
    });
  }

  /** Removes what a crash left behind; after the intents were recovered, before the first request. */
  async recover(): Promise<void> {
    const removed = await this.#options.files.sweep((fingerprint) => this.#catalog.known(fingerprint));
    if (removed.length > 0) this.#options.log.info('Removed files of unfinished image imports', { files: removed });
  }

  list(project: string, viewer: ImageViewer, { allProjects }: { allProjects: boolean }): RecordList {
    const home = this.#home(project);
    const visible = (): readonly Entry<ImageRecord>[] => {
      const entries = this.#catalog.list(allProjects ? undefined : home);
      return viewer.trusted ? entries : entries.filter(({ value }) => value.public);
    };
    const rendered = (): readonly { value: Image; text: string }[] => visible().map((entry) => this.#render(entry));
    const scope = allProjects ? '*' : home;
    return {
      version: `${scope}:${viewer.trusted ? 'all' : 'public'}:${this.#catalog.version}`,
      urls: () => visible().map(({ value }) => imageUrl(value.fingerprint)),
      json: () => rendered().map(({ text }) => text),
      values: () => rendered().map(({ value }) => value),
    };
  }

  get(project: string, fingerprint: string, viewer: ImageViewer): { image: Image; etag: readonly unknown[] } {
    const entry = this.#visible(project, fingerprint, viewer);
    return { image: this.#render(entry).value, etag: imageEtag(entry.value) };
  }

  async export(project: string, fingerprint: string, viewer: ImageViewer): Promise<ImageExport> {
    const { value } = this.#visible(project, fingerprint, viewer);
    const found = await exportOf(this.#options.files, value);
    if (viewer.secret !== undefined) this.#secrets.spend(value.fingerprint, viewer.secret);
    this.#announce('image-retrieved', project, value.fingerprint, viewer.requestor);
    return found;
  }

  upload(project: string, parts: AsyncIterable<UploadPart>, options: UploadOptions): Promise<StartedOperation> {
    return this.#options.creator.upload({ project, home: this.#home(project) }, parts, options);
  }

  create(project: string, body: ImagesPost, options: CreateOptions): Promise<StartedOperation> {
    return this.#options.creator.create({ project, home: this.#home(project) }, body, options);
  }

  async put(project: string, fingerprint: string, body: ImagePut, options: ChangeOptions = {}): Promise<void> {
    await this.#change(project, fingerprint, options, (current) => ({
      ...current,
      public: body.public ?? false,
      autoUpdate: body.auto_update ?? false,
      properties: withoutEmpty(body.properties ?? {}),
      ...this.#optional(current, body),
    }));
  }

  async patch(project: string, fingerprint: string, body: ImagePut, options: ChangeOptions = {}): Promise<void> {
    await this.#change(project, fingerprint, options, (current) => ({
      ...current,
      public: body.public ?? current.public,
      autoUpdate: body.auto_update ?? current.autoUpdate,
      properties: withoutEmpty({ ...current.properties, ...body.properties }),
      ...this.#optional(current, body),
    }));
  }

  delete(project: string, fingerprint: string, options: ChangeOptions = {}): StartedOperation {
    const { value } = this.#entry(project, fingerprint);
    return this.#options.operations.start({
      class: 'task',
      project,
      description: 'Deleting image',
      resources: { images: [imageUrl(value.fingerprint)] },
      run: async () => {
        await this.#options.deletion.delete(value.project, value.fingerprint);
        this.#announce('image-deleted', project, value.fingerprint, options.requestor);
      },
    });
  }

  secret(project: string, fingerprint: string, options: ChangeOptions = {}): StartedOperation {
    const { value } = this.#entry(project, fingerprint);
    this.#announce('image-secret-created', project, value.fingerprint, options.requestor);
    return this.#secrets.issue(project, value.fingerprint);
  }

  refresh(project: string, fingerprint: string, options: ChangeOptions = {}): StartedOperation {
    const { value } = this.#entry(project, fingerprint);
    return this.#options.operations.start({
      class: 'task',
      project,
      description: 'Refreshing image',
      resources: {},
      run: async (context) => {
        const refreshed = await this.#options.creator.refresh(value, context);
        if (refreshed) this.#announce('image-refreshed', project, value.fingerprint, options.requestor);
        return { refreshed };
      },
    });
  }

  async #change(
    project: string,
    fingerprint: string,
    options: ChangeOptions,
    change: (current: ImageRecord) => ImageRecord,
  ): Promise<void> {
    const { value } = this.#entry(project, fingerprint);
    await this.#options.images.update(`${value.project}/${value.fingerprint}`, (current) => {
      options.precondition?.(imageEtag(current));
      return change(current);
    });
    this.#announce('image-updated', project, value.fingerprint, options.requestor);
  }

  #optional(current: ImageRecord, body: ImagePut): Pick<ImageRecord, 'expiresAt' | 'profiles'> {
    const { expires_at: expiresAt = current.expiresAt, profiles = current.profiles } = body;
    if (Number.isNaN(Date.parse(expiresAt))) throw errors.badRequest(`Invalid expiry date "${expiresAt}"`);
    if (body.profiles !== undefined) checkProfiles(this.#options.profiles, current.project, body.profiles);
    return { expiresAt, profiles };
  }

  #entry(project: string, fingerprint: string): Entry<ImageRecord> {
    return this.#catalog.byFingerprint(this.#home(project), fingerprint);
  }

  #visible(project: string, fingerprint: string, viewer: ImageViewer): Entry<ImageRecord> {
    const home = this.#home(project);
    if (viewer.trusted) return this.#catalog.byFingerprint(home, fingerprint);
    const { secret } = viewer;
    // What a caller may not see does not exist for it, not even as a second match of a prefix.
    const opened = (image: ImageRecord): boolean =>
      image.public || (secret !== undefined && this.#secrets.opens(image.fingerprint, secret));
    const entry = this.#catalog.byFingerprint(home, fingerprint, opened);
    if (!opened(entry.value)) throw imageNotFound();
    return entry;
  }

  #home(project: string): string {
    return effectiveProject(this.#options.projects, project, 'images');
  }

  #render(entry: Entry<ImageRecord>): { readonly value: Image; readonly text: string } {
    const { project, fingerprint } = entry.value;
    const stamp = `${entry.revision}.${this.#options.aliases.revision}`;
    return this.#texts.get(`${project}/${fingerprint}`, stamp, () => this.#catalog.render(entry.value));
  }

  #announce(action: string, project: string, fingerprint: string, requestor: Requestor | undefined): void {
    const event: Lifecycle = {
      action,
      source: imageUrl(fingerprint),
      ...(requestor === undefined ? {} : { requestor }),
    };
    this.#options.events.lifecycle(project, event);
  }
}
