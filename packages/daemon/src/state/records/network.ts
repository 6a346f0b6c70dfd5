/** Stored under `/networks/<project>/<name>`. */
export interface NetworkRecord {
  readonly project: string;
  readonly name: string;
  readonly type: string;
  readonly description: string;
  readonly config: Readonly<Record<string, string>>;
  readonly status: 'Created' | 'Pending' | 'Errored';
}
