import { errors, isKeelsonError } from '../../../core/errors.ts';
import { readMultipart } from '../../../core/multipart.ts';
import type { ImagePart, RemoteImage, RemotePart, RemoteRequest } from '../ports.ts';
import { fetchJson, fetchUrl, type FetchOptions } from './fetch.ts';

const RECORD_LIMIT = 4 * 1024 * 1024;
const HASH = /^[0-9a-f]{64}$/;

/** A public image of another server that speaks this API, or a private one with its secret. */
export async function findOnServer(request: RemoteRequest, signal: AbortSignal | undefined): Promise<RemoteImage> {
  const { server, certificate, secret } = request;
  const options: FetchOptions = { certificate, signal };
  const base = server.replace(/\/+$/, '');
  const project = request.project === '' ? {} : { project: request.project };
  const name = await resolveAlias(request, `${base}/1.0/images/aliases`, options);
  const query = new URLSearchParams({ ...project, ...(secret === '' ? {} : { secret }) }).toString();
  const suffix = query === '' ? '' : `?${query}`;
  const record = await metadataOf(`${base}/1.0/images/${encodeURIComponent(name)}${suffix}`, options);
  const fingerprint = record['fingerprint'];
  // What the server calls the image is checked against what it sends, and never used as a path.
  if (
    typeof fingerprint !== 'string' ||
    !HASH.test(fingerprint) ||
    (!fingerprint.startsWith(name) && HASH.test(name))
  ) {
    throw errors.badRequest(`Server "${server}" answered with another image than "${name}"`);
  }
  const { size } = record;
  return {
    fingerprint,
    size: typeof size === 'number' ? size : undefined,
    properties: propertiesOf(record['properties']),
    open: (stop) => download(`${base}/1.0/images/${fingerprint}/export${suffix}`, { certificate, signal: stop }),
  };
}

/** The alias's target, or the name itself, which then is a fingerprint. */
async function resolveAlias(request: RemoteRequest, url: string, options: FetchOptions): Promise<string> {
  const { name, project } = request;
  const query = project === '' ? '' : `?project=${encodeURIComponent(project)}`;
  try {
    const { target } = await metadataOf(`${url}/${encodeURIComponent(name)}${query}`, options);
    if (typeof target === 'string' && HASH.test(target)) return target;
  } catch (error) {
    if (!isKeelsonError(error, 'not-found')) throw error;
  }
  if (!/^[0-9a-f]{1,64}$/.test(name)) throw errors.notFound('Image not found');
  return name;
}

async function metadataOf(url: string, options: FetchOptions): Promise<Readonly<Record<string, unknown>>> {
  const answer = await fetchJson(url, RECORD_LIMIT, options);
  const metadata = isMap(answer) ? answer['metadata'] : undefined;
  if (!isMap(metadata)) throw errors.badRequest(`"${url}" did not answer as an image server does`);
  return metadata;
}

const fields: Readonly<Record<string, ImagePart>> = { metadata: 'main', rootfs: 'root', 'rootfs.img': 'disk' };

async function* download(url: string, options: FetchOptions): AsyncGenerator<RemotePart> {
  const answer = await fetchUrl(url, options);
  if (answer.statusCode !== 200) {
    answer.resume();
    throw errors.badRequest(`The image download answered with status ${answer.statusCode ?? 0}`);
  }
  const type = answer.headers['content-type'] ?? '';
  if (!type.startsWith('multipart/')) {
    yield { part: 'main', filename: undefined, body: answer };
    return;
  }
  for await (const { field, filename, body } of readMultipart(answer, type)) {
    const part = fields[field];
    if (part === undefined) throw errors.badRequest(`The image download has an unknown part "${field}"`);
    yield { part, filename: part === 'main' ? undefined : filename, body };
  }
}

function propertiesOf(value: unknown): Record<string, string> {
  if (!isMap(value)) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

function isMap(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
