import { renderTemplate, type TemplateValues } from './template.ts';

export type TemplateTrigger = 'create' | 'copy' | 'start';

/** One entry of `templates` in an image's metadata.yaml. */
export interface TemplateEntry {
  readonly when: readonly string[];
  readonly template: string;
  readonly create_only?: boolean;
  readonly properties?: Readonly<Record<string, string>>;
}

/** A file to write in the guest. */
export interface RenderedTemplate {
  /** Absolute guest path. */
  readonly path: string;
  readonly content: string;
  /** Only when nothing is there yet. */
  readonly createOnly: boolean;
}

export interface TemplateInstance {
  readonly name: string;
  readonly type: string;
  readonly architecture: string;
  readonly ephemeral: boolean;
  readonly privileged: boolean;
  /** Expanded. */
  readonly config: Readonly<Record<string, string>>;
  readonly devices: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Files that `trigger` writes. @throws TemplateError; Error naming a template file that is missing. */
export function planTemplates(
  entries: Readonly<Record<string, TemplateEntry>>,
  files: Readonly<Record<string, string>>,
  trigger: TemplateTrigger,
  instance: TemplateInstance,
): RenderedTemplate[] {
  const result: RenderedTemplate[] = [];
  for (const [path, entry] of Object.entries(entries)) {
    if (!entry.when.includes(trigger)) continue;
    const source = Object.hasOwn(files, entry.template) ? files[entry.template] : undefined;
    if (source === undefined) throw new Error(`Template "${entry.template}" for "${path}" is missing`);
    const content = renderTemplate(source, valuesOf(path, entry, trigger, instance));
    result.push({ path, content, createOnly: entry.create_only === true });
  }
  return result;
}

function valuesOf(
  path: string,
  entry: TemplateEntry,
  trigger: TemplateTrigger,
  instance: TemplateInstance,
): TemplateValues {
  const about = {
    name: instance.name,
    type: instance.type,
    architecture: instance.architecture,
    privileged: String(instance.privileged),
    ephemeral: String(instance.ephemeral),
  };
  return {
    container: about,
    instance: about,
    config: instance.config,
    devices: instance.devices,
    properties: entry.properties ?? {},
    path,
    trigger,
  };
}

/** `templates` of a parsed metadata.yaml; entries that are none are left out. */
export function templateEntries(metadata: Readonly<Record<string, unknown>>): Record<string, TemplateEntry> {
  const templates = metadata['templates'];
  const result: Record<string, TemplateEntry> = {};
  if (typeof templates !== 'object' || templates === null) return result;
  for (const [path, value] of Object.entries(templates as Record<string, unknown>)) {
    const entry = value as Partial<TemplateEntry> | null;
    if (entry === null || typeof entry !== 'object' || typeof entry.template !== 'string' || !Array.isArray(entry.when))
      continue;
    result[path] = { ...entry, when: entry.when.map(String), template: entry.template };
  }
  return result;
}
