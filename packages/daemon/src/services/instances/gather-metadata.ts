import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import { parseBackupYaml } from './plan/backup-config.ts';
import { templateEntries } from './plan/templates.ts';

/** Image metadata and the templates they name, of files that `read` knows by their path. @throws bad-request. */
export async function gatherMetadata(
  read: (name: string) => Promise<string | undefined>,
): Promise<InstanceMetadataRecord> {
  const text = await read('metadata.yaml');
  const found: unknown = text === undefined ? {} : parseBackupYaml(text, 'image metadata');
  const metadata =
    typeof found === 'object' && found !== null && !Array.isArray(found) ? (found as Record<string, unknown>) : {};
  const templates: Record<string, string> = {};
  for (const { template } of Object.values(templateEntries(metadata))) {
    if (['', '.', '..'].includes(template) || template.includes('/')) continue;
    const content = await read(`templates/${template}`);
    if (content !== undefined) templates[template] = content;
  }
  return { metadata, templates };
}
