import type { Certificate as CertificateRecord, Operation } from '@keelson/api';
import { Manager } from '../manager.ts';
import { type CallOptions, defineAttributes, Model, type ModelContext } from '../model.ts';

const FIELDS = ['fingerprint', 'name', 'type', 'restricted', 'projects', 'certificate'] as const;
const WRITABLE = ['name', 'type', 'restricted', 'projects'] as const;

/** A trusted client certificate, identified by its fingerprint. */
export class Certificate extends Model<CertificateRecord> {
  /** SHA-256 over the DER form, lower-case hex. */
  declare readonly fingerprint: CertificateRecord['fingerprint'];
  /** For people. */
  declare name: CertificateRecord['name'];
  /** `client`, `metrics` or `server`. */
  declare readonly type: CertificateRecord['type'];
  /** Whether the client may use only `projects`. */
  declare restricted: CertificateRecord['restricted'];
  /** Projects that a restricted client may use. */
  declare projects: CertificateRecord['projects'];
  /** PEM. */
  declare readonly certificate: CertificateRecord['certificate'];

  /** @internal */
  constructor(context: ModelContext, fingerprint: string, record: Partial<CertificateRecord>, populated: boolean) {
    const path = context.connection.path('certificates', fingerprint);
    super(
      context,
      { path, label: `Certificate ${fingerprint.slice(0, 12)}`, writable: WRITABLE },
      { fingerprint, ...record },
      populated,
    );
  }
}
defineAttributes<CertificateRecord>(Certificate, FIELDS, WRITABLE);

/** `client.certificates` */
export class CertificateManager extends Manager<CertificateRecord, Certificate, 'fingerprint'> {
  /** @internal */
  constructor(context: ModelContext) {
    super(context, {
      path: context.connection.path('certificates'),
      fields: FIELDS,
      key: 'fingerprint',
      make: (fingerprint, record, populated, scoped = context) =>
        new Certificate(scoped, fingerprint, record, populated),
    });
  }

  /**
   * Makes a certificate trusted. `certData` is PEM (or the base64 of DER); `password` is the server's trust password
   * or a token, empty over the unix socket. `POST /1.0/certificates` @throws APIException
   */
  async create(
    password: string,
    certData: string,
    options: CallOptions & { readonly name?: string } = {},
  ): Promise<Certificate> {
    const der = derOf(certData);
    const body = {
      type: 'client',
      certificate: btoa(String.fromCharCode(...der)),
      name: options.name ?? '',
      ...(password === '' ? {} : trustSecret(password)),
    };
    await this.context.connection.request('POST', this.definition.path, { json: body, signal: options.signal });
    return this.get(await fingerprintOf(der), options);
  }

  /**
   * Makes a token that lets one new client in by `authenticate(token)`. The server must listen on the network.
   * `projects` limits the client to them. `POST /1.0/certificates`
   * @throws APIException when the server does not listen, APIExtensionNotAvailable without `certificate_token`
   */
  async createToken(
    name: string,
    options: CallOptions & { readonly projects?: readonly string[] } = {},
  ): Promise<string> {
    const { signal, projects } = options;
    await this.context.assertExtension('certificate_token');
    const limits = projects === undefined ? {} : { restricted: true, projects };
    const json = { type: 'client', name, token: true, ...limits };
    const request = { json, signal };
    const { metadata } = await this.context.connection.request<Operation>('POST', this.definition.path, request);
    const { addresses, fingerprint, secret, expiresAt } = metadata.metadata as Partial<Record<string, unknown>>;
    const expires = typeof expiresAt === 'string' ? { expires_at: expiresAt } : {};
    return btoa(JSON.stringify({ client_name: name, fingerprint, addresses, secret, ...expires }));
  }
}

/** @internal Trust password or token under both names: newer LXD and Incus read a token as `trust_token`. */
export function trustSecret(secret: string): { password: string; trust_token: string } {
  return { password: secret, trust_token: secret };
}

/** Bytes of a certificate given as PEM or base64. */
function derOf(certificate: string): Uint8Array {
  const base64 = certificate.replace(/-----(BEGIN|END) CERTIFICATE-----/g, '').replace(/\s/g, '');
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

async function fingerprintOf(der: Uint8Array): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new Uint8Array(der));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
