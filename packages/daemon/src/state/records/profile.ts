/** Stored under `/profiles/<project>/<name>`. */
export interface ProfileRecord {
  readonly project: string;
  readonly name: string;
  readonly description: string;
  readonly config: Readonly<Record<string, string>>;
  readonly devices: Readonly<Record<string, Readonly<Record<string, string>>>>;
}
