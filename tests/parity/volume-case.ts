/** Volumes of the pool that the pools' cases leave. */
export const V = '/1.0/storage-pools/p1/volumes';

/** What a client set, or may rely on the text of. */
export const written = {
  values(record: unknown): unknown {
    const { name, config, description, content_type, used_by } = record as Record<string, unknown>;
    return { name, config, description, content_type, used_by: used_by ?? [] };
  },
};
/** A list of URLs, word for word. */
export const urls = { values: (record: unknown): unknown => record };
