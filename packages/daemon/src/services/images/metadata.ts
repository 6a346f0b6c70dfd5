import { parseDocument } from 'yaml';
import { errors, type KeelsonError } from '../../core/errors.ts';

/** What Keelson takes from metadata.yaml. */
export interface ImageMetadata {
  /** Canonical kernel name, for example `x86_64`. */
  readonly architecture: string;
  readonly createdAt: string;
  /** `1970-01-01T00:00:00Z`: never. */
  readonly expiresAt: string;
  readonly properties: Readonly<Record<string, string>>;
  /** All of it, parsed. */
  readonly document: Readonly<Record<string, unknown>>;
}

export const NEVER = '1970-01-01T00:00:00Z';

/** Other names of architectures, as distributions write them. */
const architectures: Readonly<Record<string, string>> = {
  i686: 'i686',
  i386: 'i686',
  x86: 'i686',
  '386': 'i686',
  x86_64: 'x86_64',
  amd64: 'x86_64',
  generic_64: 'x86_64',
  armv6l: 'armv6l',
  armel: 'armv6l',
  armv7l: 'armv7l',
  armhf: 'armv7l',
  arm: 'armv7l',
  armv8l: 'armv8l',
  aarch64: 'aarch64',
  arm64: 'aarch64',
  ppc: 'ppc',
  powerpc: 'ppc',
  ppc64: 'ppc64',
  ppc64le: 'ppc64le',
  ppc64el: 'ppc64le',
  s390x: 's390x',
  mips: 'mips',
  mips64: 'mips64',
  riscv32: 'riscv32',
  riscv64: 'riscv64',
};

/** Canonical name of an architecture; undefined when unknown. */
export function canonicalArchitecture(name: string): string | undefined {
  return Object.hasOwn(architectures, name) ? architectures[name] : undefined;
}

/**
 * Reads and checks metadata.yaml.
 * @throws bad-request with LXD's text, or naming the field.
 */
export function parseMetadata(text: string): ImageMetadata {
  const document = parseYaml(text);
  const architecture = textOf(document['architecture']);
  const known = canonicalArchitecture(architecture);
  if (known === undefined) throw errors.badRequest(`Architecture isn't supported: ${architecture}`);
  const created = secondsOf(document['creation_date'], 'creation_date');
  if (created === 0) throw errors.badRequest('Missing creation date');
  const expiry = secondsOf(document['expiry_date'], 'expiry_date');
  checkTemplates(document['templates']);
  return {
    architecture: known,
    createdAt: timestamp(created),
    expiresAt: expiry === 0 ? NEVER : timestamp(expiry),
    properties: propertiesOf(document['properties']),
    document,
  };
}

/** RFC 3339 of Unix seconds, without a fraction. */
function timestamp(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace('.000Z', 'Z');
}

function parseYaml(text: string): Record<string, unknown> {
  const yaml = parseDocument(text, { version: '1.1', uniqueKeys: true, logLevel: 'silent' });
  const [failure] = yaml.errors;
  if (failure !== undefined) throw invalid(failure.message.split('\n')[0] ?? 'not YAML');
  let value: unknown;
  try {
    value = yaml.toJS({ maxAliasCount: 32 });
  } catch (error) {
    throw invalid(error instanceof Error ? error.message : String(error));
  }
  if (!isMap(value)) throw invalid('it must be a map');
  return value;
}

function propertiesOf(value: unknown): Record<string, string> {
  if (value === undefined || value === null) return {};
  if (!isMap(value)) throw invalid('"properties" must be a map');
  const entries = Object.entries(value).map(([key, property]): [string, string] => {
    if (property !== null && typeof property === 'object') throw invalid(`property "${key}" must be text`);
    return [key, textOf(property)];
  });
  return Object.fromEntries(entries);
}

const TEMPLATE_FILE = /^[^/\0]+$/;

/** Every template names a target inside the guest and one file directly in templates/. */
function checkTemplates(value: unknown): void {
  if (value === undefined || value === null) return;
  if (!isMap(value)) throw invalid('"templates" must be a map');
  for (const [target, template] of Object.entries(value)) {
    if (!target.startsWith('/') || target.split('/').includes('..')) {
      throw invalid(`template target "${target}" must be an absolute path without ".."`);
    }
    if (!isMap(template)) throw invalid(`template "${target}" must be a map`);
    const file = template['template'];
    if (typeof file !== 'string' || !TEMPLATE_FILE.test(file) || file === '..' || file === '.') {
      throw invalid(`template "${target}" must name a file in templates/`);
    }
  }
}

function secondsOf(value: unknown, field: string): number {
  if (value === undefined || value === null) return 0;
  const seconds = typeof value === 'number' ? value : Number.NaN;
  if (!Number.isSafeInteger(seconds) || seconds < 0 || seconds > MAX_SECONDS) {
    throw invalid(`"${field}" must be a number of seconds`);
  }
  return seconds;
}

/** The year 9999. */
const MAX_SECONDS = 253_402_300_799;

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function isMap(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Date);
}

function invalid(reason: string): KeelsonError {
  return errors.badRequest(`Invalid metadata.yaml: ${reason}`);
}
