/** Stored under `/server/config`: the server's config keys. `core.trust_password` holds a scrypt hash. */
export interface ServerRecord {
  readonly config: Readonly<Record<string, string>>;
}
