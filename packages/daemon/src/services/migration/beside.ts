import { parse, stringify } from 'yaml';
import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import type { Beside } from './stage.ts';

/** metadata.yaml, parsed; empty for what is none. */
export function metadataIn(text: string | undefined): Record<string, unknown> {
  try {
    const found: unknown = text === undefined ? {} : parse(text, { maxAliasCount: 100, schema: 'core' });
    return typeof found === 'object' && found !== null && !Array.isArray(found) ? { ...found } : {};
  } catch {
    return {};
  }
}

/** The image's description as files beside a root. */
export function besideOf(record: InstanceMetadataRecord | undefined): Map<string, string> {
  const files = new Map<string, string>();
  if (record === undefined) return files;
  files.set('metadata.yaml', stringify(record.metadata));
  for (const [name, text] of Object.entries(record.templates)) files.set(`templates/${name}`, text);
  return files;
}

/** The same, back. */
export function metadataOf(files: Beside | undefined): InstanceMetadataRecord {
  const templates: Record<string, string> = {};
  for (const [path, text] of files ?? []) {
    if (path.startsWith('templates/')) templates[path.slice('templates/'.length)] = text;
  }
  return { metadata: metadataIn(files?.get('metadata.yaml')), templates };
}
