/** Stored under `/projects/<name>`. */
export interface ProjectRecord {
  readonly name: string;
  readonly description: string;
  readonly config: Readonly<Record<string, string>>;
}
