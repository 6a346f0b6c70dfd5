import { canonicalArchitecture } from '../metadata.ts';

/** A file of a product version. */
export interface ProductFile {
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
}

/** The image a simplestreams server has for a name: metadata and root, and the SHA-256 over both. */
export interface Product {
  readonly fingerprint: string;
  readonly metadata: ProductFile;
  readonly root: ProductFile;
  readonly properties: Readonly<Record<string, string>>;
}

export interface ProductWish {
  /** Alias, or fingerprint prefix. */
  readonly name: string;
  readonly type: 'container' | 'virtual-machine';
  /** Canonical name of the host's architecture. */
  readonly architecture: string;
}

type Json = Readonly<Record<string, unknown>>;

const METADATA_TYPES = ['lxd.tar.xz', 'incus.tar.xz'];

/** Roots by preference: file type and the key of the combined hash in the metadata item. */
const roots = {
  container: [
    ['squashfs', 'combined_squashfs_sha256'],
    ['root.tar.xz', 'combined_rootxz_sha256'],
  ],
  'virtual-machine': [
    ['disk-kvm.img', 'combined_disk-kvm-img_sha256'],
    ['disk1.img', 'combined_disk1-img_sha256'],
  ],
} as const;

const HASH = /^[0-9a-f]{64}$/;

/** Paths of the product files in an index. */
export function productPaths(index: unknown): readonly string[] {
  const entries = Object.values(mapOf(mapOf(index)['index']));
  return entries
    .map(mapOf)
    .filter((entry) => entry['datatype'] === 'image-downloads' && entry['format'] === 'products:1.0')
    .flatMap(({ path }) => (typeof path === 'string' && isPlainPath(path) ? [path] : []));
}

/** The newest image of a products file that fits; undefined when none does. */
export function findProduct(products: unknown, wish: ProductWish): Product | undefined {
  for (const product of Object.values(mapOf(mapOf(products)['products'])).map(mapOf)) {
    if (canonicalArchitecture(textOf(product['arch'])) !== wish.architecture) continue;
    const named = textOf(product['aliases'])
      .split(',')
      .some((alias) => alias.trim() === wish.name);
    const versions = Object.entries(mapOf(product['versions'])).toSorted(([a], [b]) => (a < b ? 1 : -1));
    for (const [serial, version] of versions) {
      const found = imageOf(product, serial, mapOf(version), wish.type);
      if (found === undefined) continue;
      if (named || (wish.name.length >= 12 && found.fingerprint.startsWith(wish.name))) return found;
    }
  }
  return undefined;
}

function imageOf(product: Json, serial: string, version: Json, type: ProductWish['type']): Product | undefined {
  const items = Object.values(mapOf(version['items'])).map(mapOf);
  const head = items.find((item) => METADATA_TYPES.includes(textOf(item['ftype'])));
  const metadata = head === undefined ? undefined : fileOf(head);
  if (head === undefined || metadata === undefined) return undefined;
  for (const [ftype, hashKey] of roots[type]) {
    const item = items.find((candidate) => candidate['ftype'] === ftype);
    const root = item === undefined ? undefined : fileOf(item);
    const fingerprint = textOf(head[hashKey]) || (ftype === 'root.tar.xz' ? textOf(head['combined_sha256']) : '');
    if (root === undefined || !HASH.test(fingerprint)) continue;
    return { fingerprint, metadata, root, properties: propertiesOf(product, serial, ftype) };
  }
  return undefined;
}

function fileOf(item: Json): ProductFile | undefined {
  const { path, size, sha256 } = item;
  if (typeof path !== 'string' || !isPlainPath(path) || typeof size !== 'number') return undefined;
  return typeof sha256 === 'string' && HASH.test(sha256) ? { path, size, sha256 } : undefined;
}

function propertiesOf(product: Json, serial: string, type: string): Record<string, string> {
  const [os, release, arch] = [textOf(product['os']), textOf(product['release']), textOf(product['arch'])];
  const title = textOf(product['release_title']) || release;
  const properties = {
    os,
    release,
    architecture: arch,
    variant: textOf(product['variant']),
    serial,
    type,
    description: `${os} ${title} ${arch} (${serial})`,
  };
  return Object.fromEntries(Object.entries(properties).filter(([, value]) => value !== ''));
}

/** Relative, below the server's root. */
function isPlainPath(path: string): boolean {
  return path !== '' && !path.startsWith('/') && !path.includes('://') && !path.split('/').includes('..');
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function mapOf(value: unknown): Json {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Json) : {};
}
