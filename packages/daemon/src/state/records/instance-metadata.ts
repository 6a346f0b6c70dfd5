/**
 * What an instance keeps of its image's metadata. Stored under `/instance-metadata/<project>/<instance>`, a snapshot's
 * under `/instance-metadata/<project>/<instance>/<snapshot>`.
 */
export interface InstanceMetadataRecord {
  /** metadata.yaml, parsed. */
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Template file name → content. */
  readonly templates: Readonly<Record<string, string>>;
}
