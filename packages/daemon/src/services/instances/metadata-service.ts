import type { ImageMetadata } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import type { InstanceType } from '../../state/records/instance.ts';
import { type ChangeRequest } from './changer.ts';
import { type InstanceContext, idOf } from './context.ts';

/** Image metadata an instance keeps, and its templates. */
export class InstanceMetadataService {
  readonly #context: InstanceContext;

  constructor(context: InstanceContext) {
    this.#context = context;
  }

  get(project: string, name: string, type?: InstanceType): ImageMetadata {
    const record = this.#context.require(project, name, type);
    const { metadata } = this.#known(project, name);
    return {
      architecture: textOf(metadata['architecture'], record.architecture),
      creation_date: numberOf(metadata['creation_date']),
      expiry_date: numberOf(metadata['expiry_date']),
      properties: propertiesOf(metadata['properties']),
      templates: (metadata['templates'] ?? null) as ImageMetadata['templates'],
    };
  }

  async put(project: string, name: string, metadata: ImageMetadata, request: ChangeRequest = {}): Promise<void> {
    await this.#change(project, name, request, (current) => ({ ...current, metadata: { ...metadata } }));
  }

  async patch(
    project: string,
    name: string,
    metadata: Partial<ImageMetadata>,
    request: ChangeRequest = {},
  ): Promise<void> {
    const now = this.get(project, name, request.type);
    await this.#change(project, name, request, (current) => ({
      ...current,
      metadata: {
        ...now,
        ...metadata,
        properties: { ...now.properties, ...metadata.properties },
        templates: metadata.templates === undefined ? now.templates : { ...now.templates, ...metadata.templates },
      },
    }));
  }

  templates(project: string, name: string, type?: InstanceType): string[] {
    this.#context.require(project, name, type);
    return Object.keys(this.#known(project, name).templates).sort();
  }

  /** @throws not-found naming the template. */
  template(project: string, name: string, file: string, type?: InstanceType): string {
    this.#context.require(project, name, type);
    checkTemplateName(file);
    const { templates } = this.#known(project, name);
    if (!Object.hasOwn(templates, file)) throw errors.notFound(`Template "${file}" not found`);
    return templates[file] ?? '';
  }

  async putTemplate(
    project: string,
    name: string,
    { file, content }: { readonly file: string; readonly content: string },
    request: ChangeRequest = {},
  ): Promise<void> {
    this.#context.require(project, name, request.type);
    checkTemplateName(file);
    await this.#change(project, name, request, (current) => ({
      ...current,
      templates: { ...current.templates, [file]: content },
    }));
  }

  async deleteTemplate(project: string, name: string, file: string, request: ChangeRequest = {}): Promise<void> {
    if (file === '') throw errors.badRequest('missing path argument');
    this.template(project, name, file, request.type);
    await this.#change(project, name, request, (current) => {
      const { [file]: _, ...templates } = current.templates;
      return { ...current, templates };
    });
  }

  #known(project: string, name: string): InstanceMetadataRecord {
    return this.#context.deps.collections.metadata.get(idOf(project, name))?.value ?? { metadata: {}, templates: {} };
  }

  async #change(
    project: string,
    name: string,
    request: ChangeRequest,
    change: (current: InstanceMetadataRecord) => InstanceMetadataRecord,
  ): Promise<void> {
    const record = this.#context.require(project, name, request.type);
    const { metadata } = this.#context.deps.collections;
    const id = idOf(project, name);
    request.precondition?.([this.get(project, name)]);
    await this.#context.deps.operations.exclusive([this.#context.lock(record)], async () => {
      this.#context.require(project, name);
      if (metadata.get(id) === undefined) await metadata.create(id, change(this.#known(project, name)));
      else await metadata.update(id, change);
    });
    this.#context.lifecycle('instance-metadata-updated', record, request);
  }
}

/** @throws bad-request: a template is a file name, never a path. */
function checkTemplateName(file: string): void {
  if (file.includes('/') || file === '.' || file === '..' || file.length > 255) {
    throw errors.badRequest('Invalid template filename');
  }
}

function textOf(value: unknown, fallback: string): string {
  return typeof value === 'string' ? value : fallback;
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}

function propertiesOf(value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null) return {};
  return Object.fromEntries(Object.entries(value).map(([key, text]) => [key, String(text)]));
}
